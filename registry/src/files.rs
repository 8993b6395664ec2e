//! Files that are whole or absent: plugins read up to a limit, and writes that a crash cannot halve.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{ComponentError, MAX_PLUGIN_BYTES};

/// A plugin file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PluginFileError {
    /// There is none.
    #[error(
        "there is no plugin file `{0}`; check the path, or build the first-party plugins with `cargo xtask plugins`"
    )]
    Missing(PathBuf),
    /// It is larger than [`MAX_PLUGIN_BYTES`].
    #[error("plugin file `{path}` cannot be used")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ComponentError,
    },
    /// Anything else.
    #[error("plugin file `{path}` cannot be read; check that it is a file that this user may read")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads a plugin file, up to the size that a plugin may have.
///
/// # Errors
/// If there is none, if it cannot be read or if it is too large.
pub fn read_plugin_file(path: &Path) -> Result<Vec<u8>, PluginFileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => PluginFileError::Missing(path.to_owned()),
        _ => PluginFileError::Read { path: path.to_owned(), source },
    };
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_PLUGIN_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_PLUGIN_BYTES {
        return Err(PluginFileError::TooLarge { path: path.to_owned(), source: ComponentError::TooLarge });
    }
    Ok(bytes)
}

/// Writes a whole file or none: into a temporary file beside it, which is synced and then renamed over `path`. When
/// this returns, a crash of the machine leaves the new content; before, it leaves the old one or none.
///
/// # Errors
/// What the system said; `path` is then as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{}.{}-{number}.tmp", name.display(), std::process::id()));
    let written = write_and_rename(&temporary, path, bytes);
    if written.is_err() {
        // The first error is the one that matters, and a stray temporary file harms nobody.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write_and_rename(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.json");
        write_atomically(&path, b"a long first content").expect("written");
        write_atomically(&path, b"short").expect("written again");
        assert_eq!(fs::read(&path).expect("read"), b"short");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("taken");
        fs::create_dir(&path).expect("a folder in the way");
        assert!(write_atomically(&path, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_missing_plugin_file_is_named() {
        let error = read_plugin_file(Path::new("/nowhere/at/all.wasm")).expect_err("no such file");
        assert!(error.to_string().contains("`/nowhere/at/all.wasm`"), "{error}");
    }
}
