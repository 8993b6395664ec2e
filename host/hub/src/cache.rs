//! The cache's folders, laid out as Hugging Face's client does.
//!
//! Below `models--OWNER--NAME`: `blobs/TAG` are contents, `snapshots/COMMIT/FILE` links to them, `refs/REVISION` the
//! commit that a revision was, and `.no_exist/COMMIT/FILE` says that a commit has no such file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::name::{Commit, Repository, Revision, Tag};
use crate::{HubError, disk};

/// The cache's folder.
pub(super) struct Cache(PathBuf);

impl Cache {
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn of(&self, repository: &Repository) -> PathBuf {
        self.0.join(format!("models--{}", repository.as_str().replace('/', "--")))
    }

    /// Where a commit's files are.
    pub fn snapshot(&self, repository: &Repository, commit: &Commit) -> PathBuf {
        self.of(repository).join("snapshots").join(commit.as_str())
    }

    /// Where a content is, once it is whole.
    pub fn blob(&self, repository: &Repository, tag: &Tag) -> PathBuf {
        self.of(repository).join("blobs").join(tag.as_str())
    }

    fn reference(&self, repository: &Repository, revision: &Revision) -> PathBuf {
        self.of(repository).join("refs").join(revision.as_str())
    }

    fn absence(&self, repository: &Repository, commit: &Commit, name: &str) -> PathBuf {
        self.of(repository).join(".no_exist").join(commit.as_str()).join(name)
    }

    /// The commit that a revision was when it was last asked for.
    pub fn commit(&self, repository: &Repository, revision: &Revision) -> Option<Commit> {
        Commit::parse(fs::read_to_string(self.reference(repository, revision)).ok()?.trim())
    }

    /// Keeps what a revision is.
    pub fn keep_commit(&self, repository: &Repository, revision: &Revision, commit: &Commit) -> Result<(), HubError> {
        let path = self.reference(repository, revision);
        replace(&path, |partial| fs::write(partial, commit.as_str()))
    }

    /// Whether the commit is known to have no such file.
    pub fn is_absent(&self, repository: &Repository, commit: &Commit, name: &str) -> bool {
        self.absence(repository, commit, name).is_file()
    }

    /// Keeps that the commit has no such file.
    pub fn keep_absent(&self, repository: &Repository, commit: &Commit, name: &str) -> Result<(), HubError> {
        replace(&self.absence(repository, commit, name), |partial| fs::write(partial, ""))
    }

    /// Gives a content its name in a commit.
    pub fn link(&self, repository: &Repository, commit: &Commit, name: &str, tag: &Tag) -> Result<PathBuf, HubError> {
        let path = self.snapshot(repository, commit).join(name);
        let blob = Path::new("..").join("..").join("blobs").join(tag.as_str());
        replace(&path, |partial| std::os::unix::fs::symlink(&blob, partial))?;
        Ok(path)
    }
}

/// Makes a file under another name beside it, then renames it, so that nobody sees half of it.
fn replace(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), HubError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(disk("create", folder))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = folder.join(format!(".{name}.partial-{}", std::process::id()));
    // One of this name is of a process that died.
    let _ = fs::remove_file(&partial);
    make(&partial).and_then(|()| fs::rename(&partial, path)).map_err(disk("write", path))
}
