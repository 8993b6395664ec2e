//! The files of a run that its episodes depend on: published by digest, and fetched into a folder with the run's layout.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::jetstream::object_store::ObjectStore;
use bytes::Bytes;
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_registry::{Digest, LOCK_FILE};
use gymkhana_serve::catalog::SERVE_FILE;
use gymkhana_store::RunFolder;

use crate::bus::Bus;
use crate::description::FileEntry;
use crate::objects::{self, GetError, PutError};

const RUN_FILE: &str = "run.toml";
/// Folders whose files episodes depend on.
const FOLDERS: [&str; 3] = ["plugins", "assets", "chat"];
/// Most files of a run.
const MAX_FILES: usize = 10_000;
/// Attempts to store a file while the bus does not answer.
const ATTEMPTS: u32 = 5;
/// Pause between them.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 2 << 30;
/// Most bytes of all files of a run.
const MAX_BYTES: u64 = 16 << 30;

/// Reason why the files of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("the run names a file outside of its folder: `{0}`\nhint: check who may write to the bus")]
    Outside(String),
    #[error("the run has {0} files, above the limit of {MAX_FILES} for workers\nhint: put assets into archives")]
    Count(usize),
    #[error("`{path}` of the run has {bytes} bytes, above the limit of {MAX_FILE_BYTES} for workers\nhint: split it")]
    Large { path: String, bytes: u64 },
    #[error("the files of the run have {0} bytes, above the limit of {MAX_BYTES} for workers\nhint: use fewer assets")]
    Total(u64),
    #[error("`{path}` of the run cannot be fetched\nhint: restart the run, which publishes it again")]
    Lost { path: String, source: GetError },
    #[error(
        "`{0}` on the bus is not the file of its digest\nhint: restart the run, and check who may write to the bus"
    )]
    Altered(String),
    #[error("`{path}` cannot be written\nhint: free space there, or choose another --cache or TMPDIR")]
    Disk { path: PathBuf, source: io::Error },
    #[error(
        "the bus does not take `{path}`\nhint: free space at the bus, or raise the limits of its JetStream account"
    )]
    Bus { path: String, source: PutError },
    #[error("the bus went away while it took `{path}`\nhint: start the run again once the bus answers")]
    Unreachable { path: String, source: PutError },
}

impl FileError {
    /// The reason why the bus does not have a file.
    fn not_put(path: &str, source: PutError) -> Self {
        let path = path.to_owned();
        match source {
            PutError::Refused(_) => Self::Bus { path, source },
            PutError::Unreachable(_) => Self::Unreachable { path, source },
        }
    }
}

/// The files in the folder of a run, in a fixed order.
///
/// # Errors
/// If a file cannot be read, or the files are too large for workers.
pub(crate) fn list(run: &Path) -> RunResult<Vec<FileEntry>> {
    let mut paths: Vec<PathBuf> = [RUN_FILE, LOCK_FILE].map(PathBuf::from).into();
    // A server's settings; a run has none.
    paths.extend(run.join(SERVE_FILE).exists().then(|| PathBuf::from(SERVE_FILE)));
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(run.join(folder)) else { continue };
        let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>().internal()?;
        names.sort();
        paths.extend(names.into_iter().map(|name| Path::new(folder).join(name)));
    }
    let entry = |path: PathBuf| {
        let unread = format!("`{}` cannot be read\nhint: restore it", run.join(&path).display());
        let bytes = fs::read(run.join(&path)).user_context(unread)?;
        let digest = Digest::of(&bytes);
        Ok(FileEntry { path: path.to_string_lossy().into_owned(), digest, bytes: bytes.len() as u64 })
    };
    let files: Vec<FileEntry> = paths.into_iter().map(entry).collect::<RunResult<_>>()?;
    check(&files).user_error()?;
    Ok(files)
}

/// Checks that files are below the run's folder and not too large.
fn check(files: &[FileEntry]) -> Result<(), FileError> {
    if files.len() > MAX_FILES {
        return Err(FileError::Count(files.len()));
    }
    for entry in files {
        if !entry.is_inside() {
            return Err(FileError::Outside(entry.path.clone()));
        }
        if entry.bytes > MAX_FILE_BYTES {
            return Err(FileError::Large { path: entry.path.clone(), bytes: entry.bytes });
        }
    }
    match files.iter().map(|entry| entry.bytes).sum() {
        total if total > MAX_BYTES => Err(FileError::Total(total)),
        _ => Ok(()),
    }
}

/// Stores those files that the bucket does not have.
///
/// # Errors
/// If a file cannot be read, or the bus does not take it.
pub(crate) async fn publish(
    bus: &Bus,
    bucket: &str,
    store: &ObjectStore,
    run: &Path,
    files: &[FileEntry],
) -> RunResult<()> {
    for entry in files {
        let name = entry.digest.to_string();
        if store.info(&name).await.is_ok_and(|info| info.size as u64 == entry.bytes) {
            continue;
        }
        let bytes = fs::read(run.join(&entry.path)).internal()?;
        let put = put_again(bus, bucket, &name, bytes.into()).await;
        put.map_err(|source| FileError::not_put(&entry.path, source)).user_error()?;
    }
    Ok(())
}

/// Stores an object, and tries again while the bus does not answer.
async fn put_again(bus: &Bus, bucket: &str, name: &str, bytes: Bytes) -> Result<(), PutError> {
    let mut attempt = 1;
    loop {
        match objects::put(bus, bucket, name, bytes.clone()).await {
            Err(PutError::Unreachable(_)) if attempt < ATTEMPTS => attempt += 1,
            done => return done,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Writes the files into `folder`, which gets the layout of a run's folder. Files in `cache` are not fetched again.
///
/// # Errors
/// If the bus does not have a file, a file is not the one of its digest, or the disk is full.
pub(crate) async fn fetch(store: &ObjectStore, files: &[FileEntry], cache: &Path, folder: &Path) -> RunResult<()> {
    check(files).user_error()?;
    on_disk(cache, fs::create_dir_all(cache))?;
    for entry in files {
        let kept = cache.join(entry.digest.to_string());
        if !has_digest(&kept, &entry.digest) {
            let bytes = download(store, entry).await.user_error()?;
            on_disk(&kept, gymkhana_registry::write_atomically(&kept, &bytes))?;
        }
        let path = folder.join(&entry.path);
        if entry.path == RUN_FILE {
            let text = on_disk(&kept, fs::read_to_string(&kept))?;
            RunFolder::create(folder, &text)?;
        } else {
            on_disk(&path, fs::create_dir_all(path.parent().unwrap_or(folder)))?;
            on_disk(&path, fs::copy(&kept, &path))?;
        }
    }
    Ok(())
}

fn on_disk<T>(path: &Path, done: io::Result<T>) -> RunResult<T> {
    done.map_err(|source| FileError::Disk { path: path.to_owned(), source }).user_error()
}

fn has_digest(path: &Path, digest: &Digest) -> bool {
    fs::read(path).is_ok_and(|bytes| Digest::of(&bytes) == *digest)
}

async fn download(store: &ObjectStore, entry: &FileEntry) -> Result<Vec<u8>, FileError> {
    let path = || entry.path.clone();
    let bytes = objects::get(store, &entry.digest.to_string(), entry.bytes).await;
    let bytes = bytes.map_err(|source| FileError::Lost { path: path(), source })?;
    if Digest::of(&bytes) == entry.digest { Ok(bytes) } else { Err(FileError::Altered(path())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_folders_and_sizes_are_refused() {
        let entry = |path: &str, bytes: u64| FileEntry { path: path.to_owned(), digest: Digest::of(b""), bytes };
        assert!(check(&[entry("run.toml", 1 << 10), entry("assets/a", 1 << 31)]).is_ok());
        let refused = |files: &[FileEntry]| check(files).unwrap_err().to_string();
        assert!(refused(&[entry("../x", 1)]).contains("outside of its folder: `../x`"));
        assert!(refused(&[entry("assets/a", (1 << 31) + 1)]).contains("`assets/a` of the run has 2147483649 bytes"));
        assert!(refused(&vec![entry("a", 1 << 31); 9]).contains("have 19327352832 bytes"));
        assert!(refused(&vec![entry("a", 1); 10_001]).contains("has 10001 files"));
    }
}
