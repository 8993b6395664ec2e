//! Bounded reads of plugin files, opening of regular files only, and atomic writes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::{ComponentError, MAX_PLUGIN_BYTES};

/// A plugin file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PluginFileError {
    /// The file does not exist.
    #[error(
        "cannot read plugin `{0}`: the file does not exist\nhint: check the path, or build yours with `host plugin \
         build DIR` and the first-party plugins with `cargo xtask plugins`"
    )]
    Missing(PathBuf),
    /// The path is a folder.
    #[error(
        "cannot read plugin `{0}`: it is a folder\nhint: give the component in it, which `host plugin build {0}` writes"
    )]
    Folder(PathBuf),
    /// The file exceeds [`MAX_PLUGIN_BYTES`].
    #[error("cannot read plugin `{path}`")]
    TooLarge {
        /// File.
        path: PathBuf,
        /// Cause.
        source: ComponentError,
    },
    /// Other I/O error.
    #[error("cannot read plugin `{path}`\nhint: check that it is a file with read permission")]
    Read {
        /// File.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

/// Reads a plugin file of at most [`MAX_PLUGIN_BYTES`].
///
/// # Errors
/// If the file does not exist, cannot be read or is too large.
pub fn read_plugin_file(path: &Path) -> Result<Vec<u8>, PluginFileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => PluginFileError::Missing(path.to_owned()),
        io::ErrorKind::IsADirectory => PluginFileError::Folder(path.to_owned()),
        _ => PluginFileError::Read { path: path.to_owned(), source },
    };
    let mut bytes = Vec::new();
    open_regular_file(path)
        .map_err(failed)?
        .take(MAX_PLUGIN_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > MAX_PLUGIN_BYTES {
        return Err(PluginFileError::TooLarge { path: path.to_owned(), source: ComponentError::TooLarge });
    }
    Ok(bytes)
}

/// Opens a file for reading. Another person may write in a registry's folder, and an open of a named pipe would wait for
/// a writer: pipes, devices and folders are refused at once.
///
/// # Errors
/// The I/O error; [`io::ErrorKind::InvalidInput`] if it is not a regular file.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Reads a file whole, with the same rule as [`open_regular_file`].
///
/// # Errors
/// As for [`open_regular_file`].
pub fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Largest text that [`read_regular_text`] and [`read_argument`] read, in bytes.
pub const MAX_TEXT_BYTES: u64 = 256 << 20;

/// Reads a text of a folder, with the same rule as [`open_regular_file`].
///
/// # Errors
/// As for [`open_regular_file`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8, [`io::ErrorKind::FileTooLarge`] if it
/// has more than [`MAX_TEXT_BYTES`].
pub fn read_regular_text(path: &Path) -> io::Result<String> {
    read_text(open_regular_file(path)?)
}

/// Reads a text that a user names, which may be a pipe of the shell.
///
/// # Errors
/// As for [`read_regular_text`].
pub fn read_argument(path: &Path) -> io::Result<String> {
    read_text(File::open(path)?)
}

fn read_text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        let reason = format!("it has more than {} MiB", MAX_TEXT_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}

/// Opens or creates a lock file, with the same rule as [`open_regular_file`]. The caller takes the lock.
///
/// # Errors
/// As for [`open_regular_file`].
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(false).custom_flags(NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Flag of `open` that returns at once for a pipe; it has no effect on regular files.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Replaces a file atomically: writes a temporary file in the same folder, syncs it and renames it to `path`. A crash
/// before the return leaves the old content, a crash afterwards the new content.
///
/// # Errors
/// The I/O error; `path` is then unchanged.
pub fn write_atomically(path: &Path, mut bytes: &[u8]) -> io::Result<()> {
    copy_atomically(path, &mut bytes)
}

/// Like [`write_atomically`], with content of any size.
///
/// # Errors
/// If the content cannot be read or the file cannot be written.
pub fn copy_atomically(path: &Path, content: &mut impl Read) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{}.{}-{number}.tmp", name.display(), std::process::id()));
    let written = write_and_rename(&temporary, path, content);
    if written.is_err() {
        // Only the first error is reported; a leftover temporary file is harmless.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write_and_rename(temporary: &Path, path: &Path, content: &mut impl Read) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    io::copy(content, &mut file)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_replaces_the_file_and_removes_the_temporary() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.json");
        write_atomically(&path, b"a long first content").expect("written");
        write_atomically(&path, b"short").expect("written again");
        assert_eq!(fs::read(&path).expect("read"), b"short");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    /// Without a reader or writer, `open` of a pipe waits for ever without a flag against it.
    #[test]
    fn pipes_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        for refused in [pipe.as_path(), folder.path()] {
            let error = open_regular_file(refused).expect_err("not a regular file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
            open_lock_file(refused).expect_err("not a regular file");
        }
        let file = folder.path().join("file");
        fs::write(&file, b"text").expect("written");
        let mut text = String::new();
        open_regular_file(&file).expect("a file").read_to_string(&mut text).expect("read");
        assert_eq!(text, "text");
        open_lock_file(&folder.path().join("lock")).expect("created").lock().expect("locked");
    }

    #[test]
    fn failed_write_leaves_the_folder_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("taken");
        fs::create_dir(&path).expect("a folder in the way");
        let error = write_atomically(&path, b"x").expect_err("a folder in the way");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory, "{error}");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn missing_plugin_file_is_named() {
        let error = read_plugin_file(Path::new("/nowhere/at/all.wasm")).expect_err("no such file");
        assert!(
            matches!(&error, PluginFileError::Missing(path) if path == Path::new("/nowhere/at/all.wasm")),
            "{error}"
        );
    }
}
