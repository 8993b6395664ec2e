//! Content of a code cache: its entries with size and last use, and their removal.
//!
//! Other processes may use the folder at the same time. An entry that vanishes is compiled again, and a process that has
//! mapped its code keeps the mapping.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gymkhana_registry::Digest;
use twox_hash::XxHash64;

use super::{CacheError, failed};

/// Extension of a file with compiled code.
pub(super) const CODE: &str = "code";

/// Extension of the file with the checksum of the code.
pub(super) const STAMP: &str = "xxh64";

/// Extension of a file that is being written.
const TEMPORARY: &str = "tmp";

/// Age after which a temporary file belongs to a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Size limit of a file with a checksum, in bytes.
const MAX_STAMP_BYTES: u64 = 4096;

/// Folder of a code cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder(PathBuf);

/// Compiled form of a component for one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Digest of the component.
    pub component: Digest,
    /// Name and version of the plugin, if known.
    pub plugin: Option<String>,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// Time of its last use.
    pub last_used: SystemTime,
    /// Name of its files without the extension.
    stem: String,
}

impl CacheFolder {
    /// The folder at a path, which need not exist.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Checks that the path is a folder that only this user can access.
    ///
    /// # Errors
    /// If it is not, or cannot be read.
    pub fn check_access(&self) -> Result<(), CacheError> {
        let metadata = fs::symlink_metadata(&self.0).map_err(|source| failed(&self.0, source))?;
        if !metadata.is_dir() {
            return Err(CacheError::NotAFolder(self.0.clone()));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(CacheError::NotOurs(self.0.clone()));
        }
        Ok(())
    }

    /// Entries, the last used first. A folder that does not exist has none.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn entries(&self) -> Result<Vec<CacheEntry>, CacheError> {
        let mut entries: BTreeMap<String, CacheEntry> = BTreeMap::new();
        for (path, metadata) in self.files()? {
            let Some((stem, component)) = entry_of(&path) else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let entry = entries.entry(stem.clone()).or_insert_with(|| CacheEntry {
                component,
                plugin: Stamp::read(&self.0.join(format!("{stem}.{STAMP}"))).and_then(|stamp| stamp.plugin),
                bytes: 0,
                last_used: used,
                stem,
            });
            entry.bytes += metadata.len();
            entry.last_used = entry.last_used.max(used);
        }
        let mut entries: Vec<CacheEntry> = entries.into_values().collect();
        entries.sort_by(|one, other| other.last_used.cmp(&one.last_used).then_with(|| one.stem.cmp(&other.stem)));
        Ok(entries)
    }

    /// Removes the entries that were not used for the longest time until the rest has at most `max_bytes`, and
    /// temporary files of processes that were killed. Returns the removed entries.
    ///
    /// # Errors
    /// If the folder cannot be read or changed.
    pub fn trim(&self, max_bytes: u64) -> Result<Vec<CacheEntry>, CacheError> {
        self.remove_abandoned()?;
        let mut removed = self.entries()?;
        let mut total = 0_u64;
        let fits = |entry: &&CacheEntry| {
            total = total.saturating_add(entry.bytes);
            total <= max_bytes
        };
        let kept = removed.iter().take_while(fits).count();
        removed.drain(..kept);
        removed.iter().try_for_each(|entry| self.remove(entry))?;
        Ok(removed)
    }

    /// Removes an entry. An entry that another process removed is not an error.
    ///
    /// # Errors
    /// If the folder cannot be changed.
    pub fn remove(&self, entry: &CacheEntry) -> Result<(), CacheError> {
        // Without its checksum, code is not used.
        for extension in [STAMP, CODE] {
            Self::remove_file(&self.0.join(format!("{}.{extension}", entry.stem)))?;
        }
        Ok(())
    }

    fn remove_abandoned(&self) -> Result<(), CacheError> {
        let is_abandoned = |metadata: &Metadata| {
            let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            age.is_some_and(|age| age > ABANDONED)
        };
        for (path, metadata) in self.files()? {
            if path.extension().is_some_and(|end| end == TEMPORARY) && is_abandoned(&metadata) {
                Self::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn remove_file(path: &Path) -> Result<(), CacheError> {
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed(path, source)),
            _ => Ok(()),
        }
    }

    /// Regular files of the folder. Files that vanish in the meantime are skipped.
    fn files(&self) -> Result<Vec<(PathBuf, Metadata)>, CacheError> {
        let listed = match fs::read_dir(&self.0) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| failed(&self.0, source))?,
        };
        let mut files = Vec::new();
        for entry in listed {
            let entry = entry.map_err(|source| failed(&self.0, source))?;
            if let Some(metadata) = entry.metadata().ok().filter(Metadata::is_file) {
                files.push((entry.path(), metadata));
            }
        }
        Ok(files)
    }
}

/// Name without extension and component of a file of the cache; `None` for other files.
fn entry_of(path: &Path) -> Option<(String, Digest)> {
    let extension = path.extension()?.to_str()?;
    let stem = path.file_stem()?.to_str()?;
    let (component, engine) = stem.split_once('-')?;
    let is_ours = [CODE, STAMP].contains(&extension) && engine.len() == 16;
    if !is_ours || u64::from_str_radix(engine, 16).is_err() {
        return None;
    }
    Some((stem.to_owned(), component.parse().ok()?))
}

/// Checksum that finds accidental damage: XXH64. It is read at each start, and SHA-256 of a Python plugin's code would
/// take half a second on processors without instructions for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum(u64);

impl Checksum {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(XxHash64::oneshot(0, bytes))
    }
}

/// Checksum of compiled code, and the plugin that it belongs to.
pub(super) struct Stamp {
    pub checksum: Checksum,
    /// Name and version of the plugin.
    pub plugin: Option<String>,
}

impl Stamp {
    /// Text of a file for code with this checksum: the checksum, and the plugin in a second line.
    pub fn text(Checksum(code): Checksum, plugin: &str) -> String {
        format!("{code:016x}\n{plugin}\n")
    }

    /// Reads a file with a checksum; `None` if there is none.
    pub fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        fs::File::open(path).ok()?.take(MAX_STAMP_BYTES).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let checksum = Checksum(u64::from_str_radix(lines.next()?, 16).ok()?);
        Some(Self { checksum, plugin: lines.next().map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with an entry of `size` bytes of code for each number, last used that many minutes after 1970.
    fn cache(entries: &[(u64, usize)]) -> (tempfile::TempDir, CacheFolder) {
        let parent = tempfile::tempdir().unwrap();
        let folder = CacheFolder::new(parent.path());
        for (minute, size) in entries {
            let stem = stem(*minute);
            fs::write(folder.path().join(format!("{stem}.code")), vec![0; *size]).unwrap();
            let stamp = Stamp::text(Checksum::of(b"code"), &format!("acme/p{minute} 1.0.0"));
            fs::write(folder.path().join(format!("{stem}.xxh64")), stamp).unwrap();
            for extension in [CODE, STAMP] {
                set_time(&folder.path().join(format!("{stem}.{extension}")), minutes(*minute));
            }
        }
        (parent, folder)
    }

    fn stem(number: u64) -> String {
        format!("{}-00000000000000ff", Digest::of(&number.to_le_bytes()))
    }

    fn minutes(count: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(60 * count)
    }

    fn set_time(path: &Path, time: SystemTime) {
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    /// Plugins of the entries, in order.
    fn plugins(entries: &[CacheEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.plugin.as_deref().unwrap_or("?")).collect()
    }

    /// Length of a stamp: 16 digits, a plugin of 13 characters, two line ends.
    const STAMP_LENGTH: u64 = 31;

    #[test]
    fn entries_are_listed_from_the_last_used_one() {
        let (_parent, folder) = cache(&[(1, 100), (3, 300), (2, 200)]);
        let entries = folder.entries().unwrap();
        assert_eq!(plugins(&entries), ["acme/p3 1.0.0", "acme/p2 1.0.0", "acme/p1 1.0.0"]);
        assert_eq!((entries[0].bytes, entries[0].last_used), (300 + STAMP_LENGTH, minutes(3)));
        assert_eq!(entries[0].component, Digest::of(&3_u64.to_le_bytes()));
    }

    #[test]
    fn foreign_files_are_neither_listed_nor_removed() {
        let (_parent, folder) = cache(&[(1, 10)]);
        let names = ["notes.code", "README.md", &format!("{}.code", Digest::of(b"x")), &format!("{}-1.code", stem(1))];
        for name in names {
            fs::write(folder.path().join(name), "text").unwrap();
        }
        fs::create_dir(folder.path().join(format!("{}.code", stem(7)))).unwrap();
        assert_eq!(plugins(&folder.entries().unwrap()), ["acme/p1 1.0.0"]);
        assert_eq!(folder.trim(0).unwrap().len(), 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names.len() + 1);
    }

    /// Each limit keeps the longest beginning of the list that fits.
    #[test]
    fn the_rest_is_within_every_limit() {
        let sizes: [(u64, usize); 5] = [(5, 40), (4, 1000), (3, 0), (2, 7), (1, 500)];
        let totals: Vec<u64> = sizes
            .iter()
            .scan(0, |total, (_, size)| {
                *total += *size as u64 + STAMP_LENGTH;
                Some(*total)
            })
            .collect();
        for limit in (0..=2000).step_by(50).chain(totals.iter().flat_map(|total| [total - 1, *total])) {
            let (_parent, folder) = cache(&sizes);
            let removed = folder.trim(limit).unwrap();
            let kept = folder.entries().unwrap();
            assert_eq!(kept.len(), totals.iter().filter(|total| **total <= limit).count(), "limit {limit}");
            assert_eq!(kept.len() + removed.len(), sizes.len(), "limit {limit}");
            assert!(kept.iter().map(|entry| entry.bytes).sum::<u64>() <= limit, "limit {limit}");
            assert!(kept.iter().all(|kept| removed.iter().all(|gone| gone.last_used < kept.last_used)), "{limit}");
        }
    }

    #[test]
    fn a_used_entry_outlives_one_that_was_not_used() {
        let (_parent, folder) = cache(&[(1, 100), (2, 100)]);
        set_time(&folder.path().join(format!("{}.code", stem(1))), minutes(9));
        folder.trim(100 + STAMP_LENGTH).unwrap();
        assert_eq!(plugins(&folder.entries().unwrap()), ["acme/p1 1.0.0"]);
    }

    #[test]
    fn halves_of_entries_are_removed_too() {
        let (_parent, folder) = cache(&[(1, 100), (2, 100)]);
        fs::remove_file(folder.path().join(format!("{}.code", stem(1)))).unwrap();
        fs::remove_file(folder.path().join(format!("{}.xxh64", stem(2)))).unwrap();
        assert_eq!(plugins(&folder.entries().unwrap()), ["?", "acme/p1 1.0.0"]);
        folder.trim(0).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_old_temporary_files_are_removed() {
        let (_parent, folder) = cache(&[]);
        let (old, new) = (folder.path().join(".x.code.1-0.tmp"), folder.path().join(".x.code.2-0.tmp"));
        for path in [&old, &new] {
            fs::write(path, "half").unwrap();
        }
        set_time(&old, minutes(1));
        folder.trim(1000).unwrap();
        assert_eq!((old.exists(), new.exists()), (false, true));
    }

    /// Several processes may add and remove at once: each removal ends without an error.
    #[test]
    fn concurrent_removals_do_not_fail() {
        let entries: Vec<(u64, usize)> = (1..=50).map(|minute| (minute, 10)).collect();
        let (_parent, folder) = cache(&entries);
        std::thread::scope(|scope| {
            let trims: Vec<_> = (0..4).map(|_| scope.spawn(|| folder.trim(0))).collect();
            for trim in trims {
                trim.join().unwrap().unwrap();
            }
        });
        assert!(folder.entries().unwrap().is_empty());
    }

    #[test]
    fn a_missing_folder_is_empty() {
        let parent = tempfile::tempdir().unwrap();
        let folder = CacheFolder::new(&parent.path().join("missing"));
        assert!(folder.entries().unwrap().is_empty());
        assert!(folder.trim(0).unwrap().is_empty());
    }

    #[test]
    fn stamps_are_read_and_damaged_ones_are_not() {
        // The value of the reference implementation.
        assert_eq!(Checksum::of(b"abc"), Checksum(0x44bc_2cf5_ad77_0999));
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("x.xxh64");
        fs::write(&path, Stamp::text(Checksum::of(b"code"), "acme/p 1.0.0")).unwrap();
        let stamp = Stamp::read(&path).unwrap();
        assert_eq!((stamp.checksum, stamp.plugin.as_deref()), (Checksum::of(b"code"), Some("acme/p 1.0.0")));
        for damaged in ["", "no digits\nacme/p 1.0.0\n"] {
            fs::write(&path, damaged).unwrap();
            assert!(Stamp::read(&path).is_none(), "{damaged}");
        }
    }
}
