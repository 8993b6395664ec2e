//! The files of a run that its episodes depend on: published by digest, and fetched into a folder with the run's layout.

use std::fs;
use std::path::{Path, PathBuf};

use async_nats::jetstream::object_store::ObjectStore;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_registry::{Digest, LOCK_FILE};
use gymkhana_store::RunFolder;
use tokio::io::AsyncReadExt;

use crate::description::FileEntry;

const RUN_FILE: &str = "run.toml";
/// Folders whose files episodes depend on.
const FOLDERS: [&str; 3] = ["plugins", "assets", "chat"];

/// The files in the folder of a run, in a fixed order.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn list(run: &Path) -> RunResult<Vec<FileEntry>> {
    let mut paths: Vec<PathBuf> = [RUN_FILE, LOCK_FILE].map(PathBuf::from).into();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(run.join(folder)) else { continue };
        let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>().internal()?;
        names.sort();
        paths.extend(names.into_iter().map(|name| Path::new(folder).join(name)));
    }
    let entry = |path: PathBuf| {
        let unread = format!("`{}` cannot be read\nhint: restore it", run.join(&path).display());
        let bytes = fs::read(run.join(&path)).user_context(unread)?;
        let digest = Digest::of(&bytes);
        Ok(FileEntry { path: path.to_string_lossy().into_owned(), digest, bytes: bytes.len() as u64 })
    };
    paths.into_iter().map(entry).collect()
}

/// Stores those files that the bucket does not have.
///
/// # Errors
/// If a file cannot be read, or the bus does not take it.
pub(crate) async fn publish(store: &ObjectStore, run: &Path, files: &[FileEntry]) -> RunResult<()> {
    for entry in files {
        let name = entry.digest.to_string();
        if store.info(&name).await.is_ok_and(|info| info.size as u64 == entry.bytes) {
            continue;
        }
        let path = run.join(&entry.path);
        let mut file = tokio::fs::File::open(&path).await.internal()?;
        let full = format!("the bus does not take `{}`\nhint: check the limits of its JetStream account", entry.path);
        store.put(name.as_str(), &mut file).await.user_context(full)?;
    }
    Ok(())
}

/// Writes the files into `folder`, which gets the layout of a run's folder. Files in `cache` are not fetched again.
///
/// # Errors
/// If the bus does not have a file, a file is not the one of its digest, or the disk is full.
pub(crate) async fn fetch(store: &ObjectStore, files: &[FileEntry], cache: &Path, folder: &Path) -> RunResult<()> {
    fs::create_dir_all(cache)
        .user_context(format!("the cache `{}` cannot be written\nhint: choose another --cache", cache.display()))?;
    for entry in files {
        if !entry.is_inside() {
            return Err(RunError::user(format!("the run names a file outside of its folder: `{}`", entry.path)));
        }
        let kept = cache.join(entry.digest.to_string());
        if !has_digest(&kept, &entry.digest) {
            let bytes = download(store, entry).await?;
            gymkhana_registry::write_atomically(&kept, &bytes).internal()?;
        }
        let path = folder.join(&entry.path);
        if entry.path == RUN_FILE {
            let text = fs::read_to_string(&kept).internal()?;
            RunFolder::create(folder, &text)?;
        } else {
            fs::create_dir_all(path.parent().unwrap_or(folder)).internal()?;
            fs::copy(&kept, &path).internal()?;
        }
    }
    Ok(())
}

fn has_digest(path: &Path, digest: &Digest) -> bool {
    fs::read(path).is_ok_and(|bytes| Digest::of(&bytes) == *digest)
}

async fn download(store: &ObjectStore, entry: &FileEntry) -> RunResult<Vec<u8>> {
    let missing = || format!("the bus has no `{}` of the run\nhint: restart the run", entry.path);
    let object = store.get(entry.digest.to_string()).await.user_context(missing())?;
    let mut bytes = Vec::new();
    // A byte more than promised shows that the object is another one.
    object.take(entry.bytes + 1).read_to_end(&mut bytes).await.user_context(missing())?;
    if Digest::of(&bytes) == entry.digest {
        Ok(bytes)
    } else {
        Err(RunError::user(format!("`{}` on the bus is not the file of its digest", entry.path))
            .with_hint("restart the run, and check who may write to the bus"))
    }
}
