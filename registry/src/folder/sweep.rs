//! What may be taken out of a registry's folder: index files and catalogues that no checkpoint names which somebody may
//! still be reading by.
//!
//! A reader takes the checkpoint first and the files that it names afterwards. So a file stays until so many checkpoints
//! have come without it; when it was written says nothing. Each change takes out what its checkpoint makes old enough, by
//! a list that is kept of what was replaced; a crash may leave something that is on no list, which goes when the
//! folder is opened to be served.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Authority, FolderError, RegistryFolder};
use crate::{Checkpoint, Item, write_atomically};

/// What the last so many checkpoints before the newest one name is kept.
pub(super) const KEPT: u64 = 16;
/// The list of what was replaced.
const LIST: &str = ".replaced.json";

/// A file that a checkpoint no longer names.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Replaced {
    /// The number of the first checkpoint without it.
    by: u64,
    /// Where it is below the folder.
    path: String,
}

impl Replaced {
    /// Whether a reader may be at work by a checkpoint that names it, when the newest has this number.
    fn is_kept(&self, newest: u64) -> bool {
        newest < self.by.saturating_add(KEPT)
    }
}

impl RegistryFolder {
    /// Takes out what is old enough now that this checkpoint is shown, which replaced these files. The change is made
    /// whatever comes of it: what is not taken out lies there and harms nobody.
    pub(super) fn take_out_old(&self, shown: &Checkpoint, replaced: &[Item]) {
        let mut list = self.replaced();
        list.extend(replaced.iter().map(|item| Replaced { by: shown.sequence, path: item.path() }));
        let (kept, old): (Vec<_>, Vec<_>) = list.into_iter().partition(|file| file.is_kept(shown.sequence));
        let named = named(shown, &kept);
        // What was replaced may have come back: a version that is yanked and brought back gives the same file.
        for file in old.iter().filter(|file| !named.contains(&file.path)) {
            let _ = fs::remove_file(self.path().join(&file.path));
        }
        if let Ok(bytes) = serde_json::to_vec(&kept) {
            let _ = write_atomically(&self.path().join(LIST), &bytes);
        }
    }

    /// Takes out all index files and catalogues that neither the checkpoint names nor the list, which a crash left or an
    /// older host; and what processes that died were writing, which nobody has written to for so long.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn sweep(&self, unwritten_for: Duration, authority: Authority<'_>) -> Result<(), FolderError> {
        let draft = self.draft(authority)?;
        self.contents.sweep(unwritten_for).map_err(|error| self.unwritten(error))?;
        let mut kept = self.replaced();
        kept.retain(|file| file.is_kept(draft.checkpoint.sequence));
        let named = named(&draft.checkpoint, &kept);
        for path in files_below(self.path(), "index", 3).chain(files_below(self.path(), "catalogue", 1)) {
            let below = path.strip_prefix(self.path()).ok().and_then(Path::to_str);
            // What is no such file is somebody else's.
            if below.is_some_and(|below| Item::of_path(below).is_some() && !named.contains(below)) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// The list; a damaged one is none, and what was on it goes with the next sweep.
    fn replaced(&self) -> Vec<Replaced> {
        let bytes = fs::read(self.path().join(LIST)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

/// The paths that this checkpoint names, and those on the list.
fn named(checkpoint: &Checkpoint, kept: &[Replaced]) -> HashSet<String> {
    let index = checkpoint.index.iter().map(|(name, digest)| Item::Index(name.clone(), *digest));
    let items = index.chain([Item::Catalogue(checkpoint.catalogue)]);
    items.map(|item| item.path()).chain(kept.iter().map(|file| file.path.clone())).collect()
}

/// The entries so many levels below a folder of a registry.
fn files_below(root: &Path, folder: &str, levels: usize) -> impl Iterator<Item = PathBuf> + use<> {
    let mut paths = vec![root.join(folder)];
    for _ in 0..levels {
        let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        paths = paths.into_iter().flat_map(entries).collect();
    }
    paths.into_iter()
}
