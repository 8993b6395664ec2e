//! Owners of project files: a file that another user placed above the working directory gives no instructions.
//!
//! The rule is git's: the file and its folder must belong to the effective user, or to the user who called `sudo`. The
//! user allows other folders in the environment variable [`SAFE_FOLDERS_VARIABLE`].

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Environment variable with folders of other users whose project files are used, separated by `:`. `*` allows all.
pub const SAFE_FOLDERS_VARIABLE: &str = "GYMKHANA_SAFE_FOLDERS";
/// Entry of [`SAFE_FOLDERS_VARIABLE`] that allows all folders.
const ALL_FOLDERS: &str = "*";
/// User id of root.
const ROOT: u32 = 0;

/// A project file is not used because of its owner.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// The file or its folder belongs to another user.
    #[error(
        "`{path}` belongs to user {owner}, but this program runs as user {user}\nhint: if you trust that user, set \
         {SAFE_FOLDERS_VARIABLE}={folder}"
    )]
    OtherUser {
        /// File or folder.
        path: PathBuf,
        /// Folder to allow.
        folder: PathBuf,
        /// User id of the owner.
        owner: u32,
        /// Effective user id of this process.
        user: u32,
    },
    /// The owner cannot be determined.
    #[error("cannot determine the owner of `{path}`\nhint: check its permissions")]
    Unknown {
        /// File or folder.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

/// Users and folders whose project files are used.
#[derive(Debug, Clone)]
pub struct TrustedOwners {
    user: u32,
    /// User who became root with `sudo`.
    sudo: Option<u32>,
    /// Entries of [`SAFE_FOLDERS_VARIABLE`].
    folders: Vec<PathBuf>,
}

impl TrustedOwners {
    /// Owners trusted by this process and its environment.
    #[must_use]
    pub fn of_process() -> Self {
        let sudo = std::env::var("SUDO_UID").ok().and_then(|user| user.parse().ok());
        let folders = std::env::var_os(SAFE_FOLDERS_VARIABLE).unwrap_or_default();
        Self::new(rustix::process::geteuid().as_raw(), sudo, &folders)
    }

    /// Owners trusted by a process of this effective user. `sudo` counts for root only, since every other user can set
    /// `SUDO_UID`. `folders` has the format of [`SAFE_FOLDERS_VARIABLE`].
    #[must_use]
    pub fn new(user: u32, sudo: Option<u32>, folders: &OsStr) -> Self {
        Self { user, sudo: sudo.filter(|_| user == ROOT), folders: std::env::split_paths(folders).collect() }
    }

    /// Checks the owner of an existing file and of its folder.
    ///
    /// # Errors
    /// If one of them belongs to another user, and the folder is not allowed.
    pub fn check(&self, file: &Path) -> Result<(), OwnerError> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unknown = |path: &Path| {
            let path = path.to_owned();
            move |source| OwnerError::Unknown { path, source }
        };
        let folder = fs::canonicalize(folder).map_err(unknown(folder))?;
        // A link in a folder of this user counts by its own owner.
        let owners = [
            (file, fs::symlink_metadata(file).map_err(unknown(file))?.uid()),
            (folder.as_path(), fs::metadata(&folder).map_err(unknown(&folder))?.uid()),
        ];
        let is_trusted = |owner: u32| owner == self.user || self.sudo == Some(owner);
        let Some((path, owner)) = owners.into_iter().find(|(_, owner)| !is_trusted(*owner)) else { return Ok(()) };
        if self.allows(&folder) {
            return Ok(());
        }
        let path = path.to_owned();
        Err(OwnerError::OtherUser { path, folder, owner, user: self.user })
    }

    fn allows(&self, folder: &Path) -> bool {
        let is_same = |safe: &PathBuf| fs::canonicalize(safe).is_ok_and(|safe| safe == folder);
        self.folders.iter().any(|safe| safe.as_os_str() == ALL_FOLDERS || is_same(safe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user of this test owns the file; the process under test is another user.
    #[test]
    fn files_of_another_user_are_refused_unless_their_folder_is_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gymkhana.toml");
        fs::write(&file, "").expect("written");
        let owner = fs::metadata(&file).expect("a file").uid();
        let other = owner + 1;
        let check = |user, sudo, folders: &OsStr| TrustedOwners::new(user, sudo, folders).check(&file);
        check(owner, None, OsStr::new("")).expect("its owner");
        let error = check(other, None, OsStr::new("/elsewhere")).expect_err("another user");
        assert!(matches!(error, OwnerError::OtherUser { owner: found, user, .. } if (found, user) == (owner, other)));
        assert!(error.to_string().contains(SAFE_FOLDERS_VARIABLE), "{error}");
        check(other, None, folder.path().as_os_str()).expect("an allowed folder");
        check(other, None, OsStr::new("*")).expect("all folders");
        // SUDO_UID counts for root only.
        check(other, Some(owner), OsStr::new("")).expect_err("not root");
    }

    #[test]
    fn root_uses_files_of_the_user_who_called_sudo() {
        let owners = |sudo| TrustedOwners::new(ROOT, sudo, OsStr::new(""));
        assert_eq!((owners(Some(1000)).sudo, owners(None).sudo), (Some(1000), None));
        assert_eq!(TrustedOwners::new(1000, Some(1001), OsStr::new("")).sudo, None);
    }
}
