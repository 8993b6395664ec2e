//! List of the files that recent checkpoints stopped referencing, and their deletion after some more checkpoints.
//!
//! A reader fetches the checkpoint first and the referenced files afterwards, so an unreferenced file is kept for the next
//! [`RETAINED_CHECKPOINTS`] checkpoints; its modification time is irrelevant.

use std::collections::HashSet;
use std::fs;

use serde::{Deserialize, Serialize};

use super::{FolderReadError, RegistryFolder};
use crate::content_store::read_up_to;
use crate::{ContentFile, RegistryCheckpoint, write_atomically};

/// Number of checkpoints before the newest one whose files are kept.
const RETAINED_CHECKPOINTS: u64 = 16;
/// List of replaced files.
const REPLACED_FILE: &str = ".replaced.json";
/// Size limit of the list in bytes. It has at most a few dozen lines of about 150 bytes.
const MAX_REPLACED_BYTES: u64 = 1 << 20;

/// A file that a checkpoint stopped referencing.
#[derive(Debug, Clone)]
pub(super) struct Replaced {
    /// Sequence number of the first checkpoint without the file.
    by: u64,
    file: ContentFile,
}

/// JSON of a replaced file.
#[derive(Serialize, Deserialize)]
struct ReplacedJson {
    by: u64,
    /// Path relative to the folder.
    path: String,
}

impl Replaced {
    /// Parses an entry. A program that writes in the folder can write any path into the list, so only paths of
    /// replaceable files are accepted: the error is the rejected path.
    fn parse(ReplacedJson { by, path }: ReplacedJson) -> Result<Self, String> {
        match ContentFile::from_path(&path) {
            Some(file @ (ContentFile::Index(..) | ContentFile::Catalogue(_))) => Ok(Self { by, file }),
            Some(ContentFile::Release(_) | ContentFile::Component(_)) | None => Err(path.escape_debug().to_string()),
        }
    }

    fn to_json(&self) -> ReplacedJson {
        ReplacedJson { by: self.by, path: self.file.path() }
    }

    /// Returns true if a reader may still use a checkpoint that references the file.
    pub(super) fn is_retained(&self, newest: u64) -> bool {
        newest < self.by.saturating_add(RETAINED_CHECKPOINTS)
    }
}

impl RegistryFolder {
    /// Deletes files that expired with a new checkpoint and records the files that it replaced, beside those listed
    /// before. I/O errors are ignored: the change is complete, and leftover files are harmless.
    pub(super) fn delete_unreferenced(
        &self,
        current: &RegistryCheckpoint,
        mut listed: Vec<Replaced>,
        replaced: Vec<ContentFile>,
    ) {
        listed.extend(replaced.into_iter().map(|file| Replaced { by: current.sequence, file }));
        let (retained, expired): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|file| file.is_retained(current.sequence));
        let referenced = referenced_files(current, &retained);
        // A replaced file can be referenced again: yanking and restoring a version gives the same file.
        for Replaced { file, .. } in expired.iter().filter(|expired| !referenced.contains(&expired.file)) {
            let _ = fs::remove_file(self.content_store().path(file));
        }
        let retained: Vec<ReplacedJson> = retained.iter().map(Replaced::to_json).collect();
        if let Ok(bytes) = serde_json::to_vec(&retained) {
            let _ = write_atomically(&self.path().join(REPLACED_FILE), &bytes);
        }
    }

    /// Reads the list of replaced files. A missing or damaged list counts as empty, because the next
    /// [`clean_up`](Self::clean_up) finds the files without it.
    ///
    /// # Errors
    /// If the list names a path that no registry has: it was not written by this program.
    pub(super) fn replaced_files(&self) -> Result<Vec<Replaced>, FolderReadError> {
        let list = self.path().join(REPLACED_FILE);
        let bytes = read_up_to(&list, MAX_REPLACED_BYTES).ok();
        let entries: Vec<ReplacedJson> =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let foreign = |file| FolderReadError::ForeignPath { list: list.clone(), file };
        entries.into_iter().map(|entry| Replaced::parse(entry).map_err(foreign)).collect()
    }
}

/// Files referenced by a checkpoint or by the list of replaced files.
pub(super) fn referenced_files(checkpoint: &RegistryCheckpoint, retained: &[Replaced]) -> HashSet<ContentFile> {
    let index = checkpoint.index.iter().map(|(name, digest)| ContentFile::Index(name.clone(), *digest));
    let files = index.chain([ContentFile::Catalogue(checkpoint.catalogue)]);
    files.chain(retained.iter().map(|retained| retained.file.clone())).collect()
}
