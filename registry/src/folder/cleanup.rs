//! Garbage collection of index files and catalogues that no recent checkpoint references.
//!
//! A reader fetches the checkpoint first and the referenced files afterwards, so an unreferenced file is kept for the next
//! [`RETAINED_CHECKPOINTS`] checkpoints; its modification time is irrelevant. Each change deletes files by a list of
//! replaced files. A crash can leave files on no list; they are deleted when the folder is opened for serving.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Authority, FolderError, RegistryFolder};
use crate::{ContentFile, RegistryCheckpoint, write_atomically};

/// Number of checkpoints before the newest one whose files are kept.
const RETAINED_CHECKPOINTS: u64 = 16;
/// List of replaced files.
const REPLACED_FILE: &str = ".replaced.json";

/// A file that a checkpoint stopped referencing.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Replaced {
    /// Sequence number of the first checkpoint without the file.
    by: u64,
    /// Path relative to the folder.
    path: String,
}

impl Replaced {
    /// Returns true if a reader may still use a checkpoint that references the file.
    fn is_retained(&self, newest: u64) -> bool {
        newest < self.by.saturating_add(RETAINED_CHECKPOINTS)
    }
}

impl RegistryFolder {
    /// Deletes files that expired with a new checkpoint and records the files that it replaced. I/O errors are ignored:
    /// the change is complete, and leftover files are harmless.
    pub(super) fn delete_unreferenced(&self, current: &RegistryCheckpoint, replaced: &[ContentFile]) {
        let mut list = self.replaced_files();
        list.extend(replaced.iter().map(|file| Replaced { by: current.sequence, path: file.path() }));
        let (retained, expired): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|file| file.is_retained(current.sequence));
        let referenced = referenced_paths(current, &retained);
        // A replaced file can be referenced again: yanking and restoring a version gives the same file.
        for file in expired.iter().filter(|file| !referenced.contains(&file.path)) {
            let _ = fs::remove_file(self.path().join(&file.path));
        }
        if let Ok(bytes) = serde_json::to_vec(&retained) {
            let _ = write_atomically(&self.path().join(REPLACED_FILE), &bytes);
        }
    }

    /// Deletes all index files and catalogues that neither the checkpoint nor the list of replaced files references, and
    /// temporary files not written to for longer than `older_than`.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn clean_up(&self, older_than: Duration, authority: Authority<'_>) -> Result<(), FolderError> {
        let draft = self.draft(authority)?;
        self.content_store().remove_stale(older_than).map_err(|error| self.write_error(error))?;
        let mut retained = self.replaced_files();
        retained.retain(|file| file.is_retained(draft.checkpoint.sequence));
        let referenced = referenced_paths(&draft.checkpoint, &retained);
        for path in files_below(self.path(), "index", 3).chain(files_below(self.path(), "catalogue", 1)) {
            let below = path.strip_prefix(self.path()).ok().and_then(Path::to_str);
            // Files with other names do not belong to the registry.
            if below.is_some_and(|below| ContentFile::from_path(below).is_some() && !referenced.contains(below)) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Reads the list of replaced files. A missing or damaged list counts as empty, because the next
    /// [`clean_up`](Self::clean_up) finds the files without it.
    fn replaced_files(&self) -> Vec<Replaced> {
        let bytes = fs::read(self.path().join(REPLACED_FILE)).ok();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }
}

/// Paths referenced by a checkpoint or by the list of replaced files.
fn referenced_paths(checkpoint: &RegistryCheckpoint, retained: &[Replaced]) -> HashSet<String> {
    let index = checkpoint.index.iter().map(|(name, digest)| ContentFile::Index(name.clone(), *digest));
    let files = index.chain([ContentFile::Catalogue(checkpoint.catalogue)]);
    files.map(|file| file.path()).chain(retained.iter().map(|file| file.path.clone())).collect()
}

/// Entries exactly `levels` levels below a folder of a registry.
fn files_below(root: &Path, folder: &str, levels: usize) -> impl Iterator<Item = PathBuf> + use<> {
    let mut paths = vec![root.join(folder)];
    for _ in 0..levels {
        let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        paths = paths.into_iter().flat_map(entries).collect();
    }
    paths.into_iter()
}
