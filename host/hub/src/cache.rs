//! Folders of the cache, in the layout of Hugging Face's client.
//!
//! Under `models--OWNER--NAME`: `blobs/TAG` holds contents, `snapshots/COMMIT/FILE` links to them, `refs/REVISION` holds
//! the commit of a revision, and `.no_exist/COMMIT/FILE` marks a file that a commit does not have.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::name::{Commit, Repository, Revision, Tag};
use crate::{HubError, disk};

/// Folder of the cache.
pub(super) struct Cache(PathBuf);

impl Cache {
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn of(&self, repository: &Repository) -> PathBuf {
        self.0.join(format!("models--{}", repository.as_str().replace('/', "--")))
    }

    /// Folder of a commit's files.
    pub fn snapshot(&self, repository: &Repository, commit: &Commit) -> PathBuf {
        self.of(repository).join("snapshots").join(commit.as_str())
    }

    /// Path of a complete content.
    pub fn blob(&self, repository: &Repository, tag: &Tag) -> PathBuf {
        self.of(repository).join("blobs").join(tag.as_str())
    }

    fn reference(&self, repository: &Repository, revision: &Revision) -> PathBuf {
        self.of(repository).join("refs").join(revision.as_str())
    }

    fn absence(&self, repository: &Repository, commit: &Commit, name: &str) -> PathBuf {
        self.of(repository).join(".no_exist").join(commit.as_str()).join(name)
    }

    /// Commit of a revision at the last request.
    pub fn commit(&self, repository: &Repository, revision: &Revision) -> Option<Commit> {
        Commit::parse(fs::read_to_string(self.reference(repository, revision)).ok()?.trim())
    }

    /// Stores the commit of a revision.
    pub fn store_commit(&self, repository: &Repository, revision: &Revision, commit: &Commit) -> Result<(), HubError> {
        let path = self.reference(repository, revision);
        replace(&path, |partial| fs::write(partial, commit.as_str()))
    }

    /// Returns whether the commit is known not to have a file.
    pub fn is_absent(&self, repository: &Repository, commit: &Commit, name: &str) -> bool {
        self.absence(repository, commit, name).is_file()
    }

    /// Stores that the commit does not have a file.
    pub fn store_absent(&self, repository: &Repository, commit: &Commit, name: &str) -> Result<(), HubError> {
        replace(&self.absence(repository, commit, name), |partial| fs::write(partial, ""))
    }

    /// Links the name of a file in a commit to its content.
    pub fn link(&self, repository: &Repository, commit: &Commit, name: &str, tag: &Tag) -> Result<PathBuf, HubError> {
        let path = self.snapshot(repository, commit).join(name);
        let blob = Path::new("..").join("..").join("blobs").join(tag.as_str());
        replace(&path, |partial| std::os::unix::fs::symlink(&blob, partial))?;
        Ok(path)
    }
}

/// Creates a file under a temporary name and renames it, so that readers never see a partial file.
fn replace(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), HubError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(disk("create", folder))?;
    let Some(name) = path.file_name() else { return Err(disk("write", path)(ErrorKind::InvalidFilename.into())) };
    let partial = folder.join(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id()));
    // An existing one is left from a process that was killed.
    let _ = fs::remove_file(&partial);
    make(&partial).and_then(|()| fs::rename(&partial, path)).map_err(disk("write", path))
}
