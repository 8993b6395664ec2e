//! Free space of a folder.

use std::path::{Path, PathBuf};

use gymkhana_finding::Finding;

use crate::units::size;

const CHECK: &str = "disk";

/// Free space of a small run with its compiled plugins, in bytes.
const COMFORTABLE: u64 = 2 << 30;

/// Free space below which commands fail, in bytes.
const NEEDED: u64 = 100 << 20;

/// Folder with its free space.
pub struct DiskSpace {
    /// Use of the folder.
    pub purpose: &'static str,
    /// The folder.
    pub folder: PathBuf,
    /// Free bytes for this user; `None` if the system does not report it.
    pub free: Option<u64>,
}

/// Asks the file system of a folder, or of the nearest folder above that exists.
pub fn probe(purpose: &'static str, folder: &Path) -> DiskSpace {
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(folder);
    let free = rustix::fs::statvfs(existing).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    DiskSpace { purpose, folder: folder.to_owned(), free }
}

/// Checks the free space.
pub fn check(facts: &DiskSpace) -> Finding {
    let (purpose, folder) = (facts.purpose, facts.folder.display());
    let Some(free) = facts.free else {
        return Finding::warn(CHECK, format!("{purpose} {folder}: free space is unknown\nhint: check its permissions"));
    };
    let text = format!("{purpose} {folder}: {} free", size(free));
    if free >= COMFORTABLE {
        return Finding::ok(CHECK, text);
    }
    let message = format!("{text}\nhint: free space, or use a folder on another disk");
    if free >= NEEDED { Finding::warn(CHECK, message) } else { Finding::fail(CHECK, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn little_space_is_a_warning_and_less_a_failure() {
        let check = |free| check(&DiskSpace { purpose: "working folder", folder: PathBuf::from("/w"), free });
        assert_eq!(check(Some(2 << 30)).lines(), "ok    disk      working folder /w: 2.0 GiB free");
        assert_eq!(check(Some((2 << 30) - 1)).status, FindingStatus::Warn);
        assert_eq!(check(Some(100 << 20)).status, FindingStatus::Warn);
        assert_eq!(check(Some((100 << 20) - 1)).status, FindingStatus::Fail);
        assert_eq!(check(None).status, FindingStatus::Warn);
    }

    #[test]
    fn a_folder_that_does_not_exist_has_the_space_of_its_parent() {
        let parent = tempfile::tempdir().expect("a folder");
        let missing = probe("cache", &parent.path().join("a/b"));
        assert!(missing.free.is_some_and(|free| free > 0));
    }
}
