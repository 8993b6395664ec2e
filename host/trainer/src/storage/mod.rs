//! Files of models and checkpoints: text files, safetensors, folders that are complete or absent.
//!
//! Writes are durable: data is on disk when a function returns.

pub(crate) mod checkpoint;
pub(crate) mod checksums;
pub(crate) mod converted;
pub(crate) mod description;
pub(crate) mod files;
pub(crate) mod tensor_file;
pub(crate) mod token_count;
pub mod weight_files;
mod weight_header;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use crate::TrainerError;

/// Largest text of a model that is read, in bytes.
const MAX_TEXT_BYTES: u64 = 256 << 20;

/// Opens a file for reading. A folder of a model can hold a pipe, at which an open would wait, or a device.
pub(crate) fn open_regular(path: &Path) -> Result<File, TrainerError> {
    let open = || {
        if std::fs::metadata(path)?.is_file() {
            return File::open(path);
        }
        Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file"))
    };
    open().map_err(TrainerError::file("read", path))
}

/// Reads a text, with the same rule.
pub(crate) fn read_text(path: &Path) -> Result<String, TrainerError> {
    let mut text = String::new();
    let read = open_regular(path)?.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text);
    read.map_err(TrainerError::file("read", path))?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        let reason = format!("it has more than {} MiB", MAX_TEXT_BYTES >> 20);
        return Err(TrainerError::file("read", path)(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason)));
    }
    Ok(text)
}

/// Writes a file and returns once its bytes are on the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), TrainerError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(TrainerError::file("write", path))
}

/// Flushes a folder's entries to the disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), TrainerError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(TrainerError::file("write", folder))
}

/// Creates a folder atomically: `write` fills a temporary folder, which gets its name once it is complete.
pub(crate) fn write_whole<E: From<TrainerError>>(
    folder: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if folder.exists() {
        return Err(TrainerError::Exists { path: folder.to_owned() }.into());
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(TrainerError::file("create", parent))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let partial = parent.join(format!(".{name}.partial-{}", std::process::id()));
    let written = begin(&partial).map_err(E::from).and_then(|()| write(&partial)).and_then(|()| {
        std::fs::rename(&partial, folder).map_err(TrainerError::file("rename", &partial))?;
        Ok(sync_folder(parent)?)
    });
    if written.is_err() {
        // The first error is reported; the hidden temporary folder is never read.
        let _ = std::fs::remove_dir_all(&partial);
    }
    written
}

fn begin(partial: &Path) -> Result<(), TrainerError> {
    if partial.exists() {
        std::fs::remove_dir_all(partial).map_err(TrainerError::file("remove", partial))?;
    }
    std::fs::create_dir(partial).map_err(TrainerError::file("create", partial))
}
