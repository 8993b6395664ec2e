//! Mappings of ended instances, kept for the next ones in processes of other owners.
//!
//! There, no pool reserves the memory of instances. To map and unmap it for each instance takes the lock of the address
//! space, for which the threads of the process then wait, and a page fault for each touched page. A mapping is therefore
//! cleaned when its instance ends, and given to the next instance. A list holds a bounded number of bytes.

mod memory;
mod pages;
mod stack;

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap, munmap,
};
use rustix::param::page_size;

pub(crate) use memory::Memories;
pub(crate) use stack::Stacks;

/// Most bytes of addresses that a list holds: 60 memories of a Rust guest.
const MAX_LISTED: usize = 128 << 20;

/// Private memory of this process, page-aligned and unmapped when dropped. A new one is zero and takes no memory.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory, which no thread can reach without it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives only its addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least this many bytes.
    fn new(bytes: usize) -> io::Result<Self> {
        let bytes = whole_pages(bytes)?;
        // SAFETY: a new mapping at addresses that the kernel chooses overlaps nothing.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { base, bytes };
        // One huge page would take 2 MiB for each instance. A kernel without them refuses, which changes nothing.
        // SAFETY: the advice changes no bytes.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Ok(mapping)
    }

    /// Changes the size to at least this many bytes. The mapping may move; its bytes are kept, and new ones are zero.
    fn resize(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = whole_pages(bytes)?;
        // SAFETY: this owns the old mapping, and nothing refers to it across a call that needs `&mut`.
        let base = unsafe { mremap(self.base.as_ptr().cast(), self.bytes, bytes, MremapFlags::MAYMOVE) }?;
        self.base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Makes the first page inaccessible.
    fn guard(&mut self) -> io::Result<()> {
        // SAFETY: this owns the page, and nothing uses it.
        Ok(unsafe { mprotect(self.base.as_ptr().cast(), page_size(), MprotectFlags::empty()) }?)
    }

    /// Returns the pages from one offset up to another to the system. Both are multiples of the page size. They are zero
    /// afterwards.
    fn discard(&mut self, from: usize, to: usize) -> io::Result<()> {
        debug_assert!(from <= to && to <= self.bytes);
        // SAFETY: the range is in this mapping, which nothing refers to.
        Ok(unsafe { madvise(self.base.as_ptr().add(from).cast(), to - from, Advice::LinuxDontNeed) }?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this owns the mapping, and nothing refers to it any longer.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Rounds up to whole pages.
fn whole_pages(bytes: usize) -> io::Result<usize> {
    bytes.checked_next_multiple_of(page_size()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Clean mappings without an owner, the last one used at the end. It holds at most [`MAX_LISTED`] bytes.
#[derive(Debug, Default)]
struct FreeList {
    mappings: Mutex<Vec<Mapping>>,
}

impl FreeList {
    /// Takes the mapping of at least this many bytes that was used last.
    fn take(&self, bytes: usize) -> Option<Mapping> {
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        let found = mappings.iter().rposition(|mapping| mapping.bytes >= bytes)?;
        Some(mappings.remove(found))
    }

    /// Takes a mapping of at least this many bytes, or maps one with `make`. If the system has none, those of this list
    /// are unmapped, and it is asked again.
    fn take_or(&self, bytes: usize, make: impl Fn() -> io::Result<Mapping>) -> io::Result<Mapping> {
        if let Some(mapping) = self.take(bytes) {
            return Ok(mapping);
        }
        make().or_else(|error| {
            let unused = std::mem::take(&mut *self.mappings.lock().unwrap_or_else(PoisonError::into_inner));
            if unused.is_empty() {
                return Err(error);
            }
            drop(unused);
            make()
        })
    }

    /// Adds a clean mapping. The ones that were not used for the longest time are unmapped if there are too many.
    fn put(&self, mapping: Mapping) {
        let mut unused = Vec::new();
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.push(mapping);
        let mut bytes: usize = mappings.iter().map(|mapping| mapping.bytes).sum();
        while bytes > MAX_LISTED {
            let oldest = mappings.remove(0);
            bytes -= oldest.bytes;
            unused.push(oldest);
        }
        drop(mappings);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn sizes(list: &FreeList) -> Vec<usize> {
        list.mappings.lock().unwrap().iter().map(|mapping| mapping.bytes / MIB).collect()
    }

    #[test]
    fn a_list_returns_the_last_mapping_that_is_large_enough_and_forgets_the_first() {
        let list = FreeList::default();
        for mib in [60, 20, 8, 30] {
            list.put(Mapping::new(mib * MIB).unwrap());
        }
        assert_eq!(sizes(&list), [60, 20, 8, 30], "118 of 128 MiB");
        list.put(Mapping::new(12 * MIB).unwrap());
        assert_eq!(sizes(&list), [20, 8, 30, 12], "130 MiB are too many");
        assert_eq!(list.take(13 * MIB).unwrap().bytes, 30 * MIB);
        assert!(list.take(21 * MIB).is_none());
        assert_eq!(sizes(&list), [20, 8, 12]);
    }

    #[test]
    fn kept_mappings_are_given_back_where_the_system_has_no_other() {
        let list = FreeList::default();
        list.put(Mapping::new(MIB).unwrap());
        let make = || {
            let full = !list.mappings.lock().unwrap().is_empty();
            if full { Err(io::ErrorKind::OutOfMemory.into()) } else { Mapping::new(2 * MIB) }
        };
        assert_eq!(list.take_or(2 * MIB, make).unwrap().bytes, 2 * MIB);
        let refused = list.take_or(MIB, || Err(io::ErrorKind::OutOfMemory.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn a_mapping_keeps_its_bytes_when_it_grows() {
        let mut mapping = Mapping::new(MIB).unwrap();
        // SAFETY: the bytes are in the mapping, also after it has grown.
        unsafe {
            mapping.base.add(MIB - 1).write(7);
            mapping.resize(64 * MIB).unwrap();
            assert_eq!((mapping.base.add(MIB - 1).read(), mapping.base.add(64 * MIB - 1).read()), (7, 0));
        }
        assert!(mapping.resize(usize::MAX).is_err());
    }
}
