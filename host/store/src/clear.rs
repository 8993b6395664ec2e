//! Removal of a run's files from its folder. Files of another origin stay.

use std::fs;
use std::io;
use std::path::Path;

use gymkhana_registry::{Digest, LOCK_FILE};

use crate::StoreError;
use crate::comparison;
use crate::fs::names_in;
use crate::live::is_live;
use crate::names::{METRICS_FILE, STATE_FILE, SUMMARY_FILE};

/// Whether a name in a folder is that of a run's file.
type IsOfRun = fn(&str) -> bool;

/// Folders of a run.
const FOLDERS: [(&str, IsOfRun); 6] = [
    ("checkpoints", is_checkpoint),
    ("episodes", |name| name.starts_with("part-") || name.starts_with("journal-")),
    ("tensorboard", |name| name.starts_with("stage-")),
    ("plugins", |name| name.strip_suffix(".wasm").is_some_and(is_digest)),
    ("assets", is_digest),
    (comparison::FOLDER, comparison::is_comparison),
];

/// Files of a run. The state follows the checkpoints and episodes that it needs, so that a run which was removed in part
/// can be recognised.
const FILES: [&str; 4] = [SUMMARY_FILE, METRICS_FILE, STATE_FILE, LOCK_FILE];

/// Removes everything but the run file, the process lock and the folders themselves.
pub(crate) fn remove_run_files(run: &Path) -> Result<(), StoreError> {
    for (folder, is_of_run) in FOLDERS {
        let folder = run.join(folder);
        if !folder.is_dir() {
            continue;
        }
        for name in names_in(&folder)?.iter().filter(|name| is_of_run(name)) {
            let path = folder.join(name);
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(&path).map_err(|source| StoreError::io(&path, source))?;
            } else {
                remove_file(&path)?;
            }
        }
    }
    for name in names_in(run)?.iter().filter(|name| is_live(name)) {
        remove_file(&run.join(name))?;
    }
    FILES.iter().try_for_each(|file| remove_file(&run.join(file)))
}

/// Removes a file if it exists.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, source)),
        _ => Ok(()),
    }
}

/// Whether a name is that of a checkpoint, such as `1-000050`, of a part of it, or of an incomplete one.
fn is_checkpoint(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = name.trim_start_matches('.').splitn(2, '-');
    let (stage, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    digits(stage) && rest.get(..6).is_some_and(digits)
}

fn is_digest(name: &str) -> bool {
    name.parse::<Digest>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_checkpoints_are_recognised() {
        for name in ["0-000000", "1-000050", "12-1234567", "1-000050-seat1", ".0-000000.partial-7"] {
            assert!(is_checkpoint(name), "{name}");
        }
        for name in ["best", "1-50", "mine-000050", "", "-", "1"] {
            assert!(!is_checkpoint(name), "{name}");
        }
    }
}
