//! The pages of this process that hold data, as the kernel reports them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::fstat;

/// Bytes of an entry of the kernel's page map.
const ENTRY: usize = 8;

/// Bits of an entry: the page is in memory, or swapped out. Without both, it was never written since it was mapped.
const HOLDS_DATA: u64 = 1 << 63 | 1 << 62;

/// Pages of one request.
pub const MAX_PAGES: usize = 512;

/// The kernel's map of this process's pages. It has one entry per page of addresses.
#[derive(Debug)]
pub struct PageMap {
    file: File,
    /// Device and number of the opened file.
    identity: (u64, u64),
    /// The process whose pages the file describes, even if a child reads it.
    process: u32,
}

impl PageMap {
    /// Opens the map; `None` where this process may not.
    pub fn open() -> Option<Self> {
        let file = File::open("/proc/self/pagemap").ok()?;
        Some(Self { identity: identity(&file)?, file, process: std::process::id() })
    }

    /// Returns for each page from the page of this number on whether it holds data; `None` if the kernel does not say, in
    /// a forked child, or if the program closed the file and its number belongs to another one.
    pub fn holding_data(&self, first: usize, pages: usize) -> Option<impl Iterator<Item = bool> + use<>> {
        if std::process::id() != self.process || identity(&self.file)? != self.identity {
            return None;
        }
        let mut entries = [0; ENTRY * MAX_PAGES];
        self.file.read_exact_at(entries.get_mut(..pages * ENTRY)?, (first * ENTRY) as u64).ok()?;
        let entry = move |page| {
            let mut bytes = [0; ENTRY];
            bytes.copy_from_slice(&entries[page * ENTRY..][..ENTRY]);
            u64::from_ne_bytes(bytes) & HOLDS_DATA != 0
        };
        Some((0..pages).map(entry))
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    let stat = fstat(file).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use rustix::param::page_size;

    use super::*;
    use crate::mappings::Mapping;

    #[test]
    fn only_written_pages_hold_data() {
        let Some(map) = PageMap::open() else { return };
        let mapping = Mapping::new(8 * page_size()).unwrap();
        for page in [1, 2, 6] {
            // SAFETY: the page is in the mapping.
            unsafe { mapping.base.add(page * page_size()).write(0) };
        }
        let first = mapping.base.as_ptr() as usize / page_size();
        let holding: Vec<bool> = map.holding_data(first, 8).unwrap().collect();
        assert_eq!(holding, [false, true, true, false, false, false, true, false]);
        assert!(map.holding_data(first, MAX_PAGES + 1).is_none(), "more than one request reads");
    }

    #[test]
    fn the_map_of_another_process_and_another_file_are_not_used() {
        let Some(map) = PageMap::open() else { return };
        let PageMap { identity, process, .. } = map;
        assert!(PageMap { process: process + 1, ..map }.holding_data(1, 1).is_none(), "in a forked child");
        let file = File::open("/proc/self/exe").unwrap();
        assert!(PageMap { file, identity, process }.holding_data(1, 1).is_none(), "the number of a closed file");
    }
}
