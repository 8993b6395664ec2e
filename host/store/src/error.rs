//! What can go wrong with a run's folder.

use std::io;
use std::path::{Path, PathBuf};

use gymkhana_record::EpisodeId;
use gymkhana_registry::{Digest, LockError, PluginFileError};

use crate::folder::{STATE_FILE, SUMMARY_FILE};
use crate::metrics::METRICS_FILE;
use crate::reader::is_journal;

/// A run's folder cannot be used, or something in it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder holds a run already.
    #[error("`{0}` holds another run; choose another --out or pass --resume")]
    HoldsRun(PathBuf),
    /// The folder holds something else.
    #[error("`{0}` is not empty and holds no run; choose another --out")]
    Foreign(PathBuf),
    /// The path is no folder.
    #[error("`{0}` is a file; choose a folder as --out")]
    NotAFolder(PathBuf),
    /// There is no run to resume or to read.
    #[error("`{0}` holds no run; check the path, or start one with `host run … --out {0}`")]
    NoRun(PathBuf),
    /// Another process writes there.
    #[error("another process is running in `{0}`; wait until it ends, or choose another --out")]
    InUse(PathBuf),
    /// The disk is full.
    #[error("no space is left to write `{path}`; free space and run again with --resume")]
    Full {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Any other fault of a file.
    #[error("`{path}` cannot be read or written; check the disk and this user's rights")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file's shape is newer than this host.
    #[error("`{path}` has schema {found} and this host reads up to {known}; use a newer host")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema that is read.
        known: u32,
    },
    /// A file was changed by something other than the host.
    #[error("`{path}` is damaged at byte {offset}: {what}; {}", way_out(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A Parquet part cannot be read or written.
    #[error("episodes in `{path}` cannot be read or written; {}", way_out(path))]
    Parquet {
        /// The part.
        path: PathBuf,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// JSON in a file is not what it must be.
    #[error("`{path}` holds JSON that this host cannot read; {}", way_out(path))]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A plugin in the folder has other bytes than its name says.
    #[error("plugin `{path}` has digest {found} and not the one in its name; restore it from where the run was made")]
    WrongDigest {
        /// The file.
        path: PathBuf,
        /// The digest of what is there.
        found: Digest,
    },
    /// A plugin of the run is not there.
    #[error("the run's plugin `{0}` is missing; copy the plugin file there whose sha256 is its name")]
    NoPlugin(PathBuf),
    /// An asset of the run is not there.
    #[error("the run's asset `{0}` is missing; copy the file there whose sha256 is its name")]
    NoAsset(PathBuf),
    /// A plugin file cannot be read.
    #[error(transparent)]
    Plugin(#[from] PluginFileError),
    /// The lock file cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is no such episode.
    #[error("episode `{0}` is not in this run\nhint: `host show` counts its episodes and names the first of each kind")]
    NoEpisode(EpisodeId),
    /// A record that would not be read back as it was written.
    #[error("episode `{0}` cannot be stored: {1}")]
    Unstorable(EpisodeId, &'static str),
}

/// What helps when a file is damaged: it depends on what stands in it.
fn way_out(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        STATE_FILE => {
            "restore the file, or start a new run in another --out: `host show` and `host replay` still read this one"
        }
        SUMMARY_FILE => "move it away, and `host run … --resume` writes it again",
        METRICS_FILE => "restore the file, or move it away to go on without the numbers in it",
        name if is_journal(name) => "restore the file, or move it away to have `--resume` play its episodes again",
        _ => "restore the file, or move it away to go on without its episodes",
    }
}

impl StoreError {
    /// The error for what the system said of this file.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            _ => Self::Io { path, source },
        }
    }

    /// The error for bad JSON in this file.
    pub(crate) fn json(path: &Path, source: serde_json::Error) -> Self {
        Self::Json { path: path.to_owned(), source }
    }
}
