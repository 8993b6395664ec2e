//! Errors of a run's folder and its files.

use std::io;
use std::path::{Path, PathBuf};

use gymkhana_record::EpisodeId;
use gymkhana_registry::{Digest, LOCK_FILE, LockError, PluginFileError};

use crate::names::{METRICS_FILE, RUN_FILE, STATE_FILE, SUMMARY_FILE, is_journal};

/// The run's folder is unusable, or reading or writing a file in it failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder already holds a run.
    #[error("`{0}` holds another run\nhint: choose another --out, or resume it with `host run --resume {0}`")]
    HoldsRun(PathBuf),
    /// The folder holds files of another origin.
    #[error("`{0}` is not empty and does not hold a run\nhint: choose another --out")]
    Foreign(PathBuf),
    /// The path is a file.
    #[error("`{0}` is a file\nhint: choose a folder as --out")]
    NotAFolder(PathBuf),
    /// The folder does not hold a run.
    #[error("`{0}` does not hold a run\nhint: check the path, or start one with `host run … --out {0}`")]
    NoRun(PathBuf),
    /// The folder does not hold a run, but a folder in it does, as that of a server.
    #[error("`{0}` does not hold a run, but `{1}` does\nhint: give that folder")]
    RunBelow(PathBuf, PathBuf),
    /// The folder holds a file of the name of a run file, but not the rest of a run.
    #[error("`{0}` does not hold a run: it has a run.toml, but no folder `episodes`\nhint: give the --out of a run")]
    OnlyRunFile(PathBuf),
    /// Another process writes to the folder.
    #[error("another process is running in `{0}`\nhint: wait until it ends, or choose another --out")]
    InUse(PathBuf),
    /// The disk is full.
    #[error("`{path}` cannot be written: the disk is full\nhint: free space and run again with --resume")]
    Full {
        /// The file that was being written.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Any other file error.
    #[error("`{path}` cannot be read or written\nhint: check the disk and the file's permissions")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file has a schema that this host does not read.
    #[error("`{path}` has schema {found}, but this host reads schemas up to {known}\nhint: use a newer host")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Schema of the file.
        found: u32,
        /// Newest supported schema.
        known: u32,
    },
    /// The file was changed by another program.
    #[error("`{path}` is damaged at byte {offset}: {what}\nhint: {}", repair_hint(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte offset of the damage.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The file differs from its digest.
    #[error("`{path}` is damaged: {what}\nhint: {}", repair_hint(path))]
    Altered {
        /// The file.
        path: PathBuf,
        /// Description of the difference.
        what: &'static str,
    },
    /// Reading or writing a Parquet part failed.
    #[error("episodes in `{path}` cannot be read or written\nhint: {}", repair_hint(path))]
    Parquet {
        /// The part.
        path: PathBuf,
        /// Cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The JSON in a file has an unexpected structure.
    #[error("`{path}` holds JSON that this host cannot read\nhint: {}", repair_hint(path))]
    Json {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: serde_json::Error,
    },
    /// A plugin in the folder does not match the digest in its name.
    #[error(
        "plugin `{path}` has digest {found} instead of the one in its name\nhint: restore the file from a copy of the \
         run"
    )]
    WrongDigest {
        /// The file.
        path: PathBuf,
        /// Digest of the file's bytes.
        found: Digest,
    },
    /// A plugin of the run is missing.
    #[error("the run's plugin `{0}` is missing\nhint: copy the plugin file there whose sha256 is its name")]
    NoPlugin(PathBuf),
    /// An asset of the run is missing.
    #[error("the run's asset `{0}` is missing\nhint: copy the file there whose sha256 is its name")]
    NoAsset(PathBuf),
    /// Reading a plugin file failed.
    #[error(transparent)]
    Plugin(#[from] PluginFileError),
    /// Reading or writing the lock file failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The run does not contain the episode.
    #[error("episode `{0}` is not in this run\nhint: `host show` counts its episodes and names the first of each kind")]
    NoEpisode(EpisodeId),
    /// The record cannot be stored without loss.
    #[error("episode `{0}` cannot be stored: {1}")]
    Unstorable(EpisodeId, &'static str),
}

/// Hint for a damaged file, by the file's name.
fn repair_hint(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        RUN_FILE | LOCK_FILE => "restore the file from a copy of the run, or start a new run in another --out",
        STATE_FILE => {
            "restore the file, or start a new run in another --out: `host show` and `host replay` still read this one"
        }
        SUMMARY_FILE => "move it away, and `host run … --resume` writes it again",
        METRICS_FILE => "restore the file, or move it away to continue without the numbers in it",
        name if is_journal(name) => "restore the file, or move it away to have `--resume` play its episodes again",
        _ => "restore the file, or move it away to continue without its episodes",
    }
}

impl StoreError {
    /// Wraps a system error of this file.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            _ => Self::Io { path, source },
        }
    }

    /// Wraps a JSON error of this file.
    pub(crate) fn json(path: &Path, source: serde_json::Error) -> Self {
        Self::Json { path: path.to_owned(), source }
    }
}
