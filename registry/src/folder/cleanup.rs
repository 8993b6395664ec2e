//! Garbage collection of index files and catalogues that no recent checkpoint references.
//!
//! Each change deletes files by the list of replaced files. A crash can leave files on no list; they are deleted when the
//! folder is opened for serving.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::replaced::{Replaced, referenced_files};
use super::{Authority, FolderError, RegistryFolder};
use crate::ContentFile;

impl RegistryFolder {
    /// Deletes all index files and catalogues that neither the checkpoint nor the list of replaced files references, and
    /// temporary files not written to for longer than `older_than`.
    ///
    /// # Errors
    /// If the folder cannot be read, or the list of replaced files names a path that no registry has.
    pub fn clean_up(&self, older_than: Duration, authority: Authority<'_>) -> Result<(), FolderError> {
        let draft = self.draft(authority)?;
        self.content_store().remove_stale(older_than).map_err(|error| self.write_error(error))?;
        let is_retained = |file: &&Replaced| file.is_retained(draft.checkpoint.sequence);
        let retained: Vec<Replaced> = draft.listed.iter().filter(is_retained).cloned().collect();
        let referenced = referenced_files(&draft.checkpoint, &retained);
        for path in files_below(self.path(), "index", 3).chain(files_below(self.path(), "catalogue", 1)) {
            let below = path.strip_prefix(self.path()).ok().and_then(Path::to_str);
            // Files with other names do not belong to the registry.
            if below.and_then(ContentFile::from_path).is_some_and(|file| !referenced.contains(&file)) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }
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
