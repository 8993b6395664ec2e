//! Exclusive access to a project's files between reading and writing them.
//!
//! `host add` reads `gymkhana.toml` and `gymkhana.lock`, asks registries, and writes both. Without a lock, the last of
//! several commands would overwrite the changes of the others.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gymkhana_registry::open_lock_file;
use gymkhana_waits::{Counterpart, Reminder, Silent};

use super::ProjectError;

/// Name of the file that is locked. It stays in the folder: removing it would let two processes lock different files.
const PROJECT_LOCK_FILE: &str = ".gymkhana.lock";

/// Longest wait for another command. A release of a large plugin downloads in a tenth of it at the minimum rate.
const LONGEST: Duration = Duration::from_secs(1800);
/// Time between two looks at the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exclusive access to the files of a project, until it is dropped.
#[derive(Debug)]
pub struct ProjectLock {
    _file: File,
}

impl ProjectLock {
    /// Waits for exclusive access to the project in a folder; `notify` gets a message before it waits, and every ten minutes.
    ///
    /// # Errors
    /// If the file cannot be locked, or another command holds it for half an hour.
    pub fn acquire(folder: &Path, notify: &dyn Fn(&str)) -> Result<Self, ProjectError> {
        Self::acquire_within(LONGEST, folder, notify)
    }

    fn acquire_within(bound: Duration, folder: &Path, notify: &dyn Fn(&str)) -> Result<Self, ProjectError> {
        let path = folder.join(PROJECT_LOCK_FILE);
        let cannot = |source| ProjectError::Exclusive { path: path.clone(), source };
        let file = open_lock_file(&path).map_err(cannot)?;
        let (since, mut reminder) = (Instant::now(), Reminder::new(Duration::ZERO));
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
                Err(TryLockError::WouldBlock) if since.elapsed() >= bound => {
                    let named = format!("of `{}`", folder.display());
                    let silent = Silent { counterpart: Counterpart::RunLock, named, waited: bound };
                    return Err(ProjectError::Locked(silent));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if reminder.due().is_some() {
                notify(&format!("waiting for another command that changes `{}`", folder.display()));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The holder is another open file: locks of this kind belong to open files, not to processes.
    #[test]
    fn a_command_that_keeps_the_lock_is_waited_for_within_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let held = ProjectLock::acquire(folder.path(), &|_| panic!("nothing holds it")).unwrap();
        let told = Cell::new(0);
        let notify = |_: &str| told.set(told.get() + 1);
        let late = ProjectLock::acquire_within(Duration::from_millis(200), folder.path(), &notify).unwrap_err();
        let (path, late) = (folder.path().display(), late.to_string());
        assert!(
            late.starts_with(&format!("the process that holds the lock of `{path}` did not answer for 0.2 s")),
            "{late}"
        );
        assert!(late.contains("hint: end "), "{late}");
        assert_eq!(told.get(), 1);
        drop(held);
        ProjectLock::acquire_within(Duration::ZERO, folder.path(), &notify).unwrap();
    }
}
