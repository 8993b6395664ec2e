//! Errors of reading and changing a registry folder.

use std::path::PathBuf;

use crate::{
    CheckpointError, ContentStoreError, IndexError, KeyHolder, Namespace, PluginName, PublicKey, ReleaseError,
    RuleViolation,
};

/// A registry folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderReadError {
    /// Missing checkpoint file.
    #[error("`{0}` is not a registry\nhint: check the path, or create one with `host registry init {0}`")]
    NotARegistry(PathBuf),
    /// Rejected checkpoint.
    #[error("cannot use the registry in `{path}`")]
    Checkpoint {
        /// Folder.
        path: PathBuf,
        /// Cause.
        source: CheckpointError,
    },
    /// Rejected file.
    #[error("the registry in `{path}` is damaged")]
    Contents {
        /// Folder.
        path: PathBuf,
        /// Cause.
        source: ContentStoreError,
    },
    /// Missing file that the checkpoint references.
    #[error("the registry in `{path}` lacks `{file}`, which its checkpoint references\nhint: restore it from a backup")]
    Missing {
        /// Folder.
        path: PathBuf,
        /// Path of the file within the folder.
        file: String,
    },
    /// A list within the folder names a path that no registry has.
    #[error(
        "`{list}` lists `{file}`, which is not an index file or catalogue of the registry\nhint: the list was not \
         written by this program; check who can write in the folder, then remove the list"
    )]
    ForeignPath {
        /// List.
        list: PathBuf,
        /// Listed path, with control characters escaped.
        file: String,
    },
    /// Rejected index file.
    #[error("cannot use plugin `{name}` in the registry `{path}`")]
    Index {
        /// Folder.
        path: PathBuf,
        /// Plugin name, or `catalogue`.
        name: String,
        /// Cause.
        source: IndexError,
    },
    /// Rejected release file.
    #[error("cannot use the release of {release} in the registry `{path}`")]
    Release {
        /// Folder.
        path: PathBuf,
        /// Plugin and version.
        release: String,
        /// Cause.
        source: Box<ReleaseError>,
    },
}

/// A registry folder was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder cannot be read.
    #[error(transparent)]
    Read(#[from] FolderReadError),
    /// The folder cannot be written.
    #[error("cannot change the registry in `{path}`")]
    Write {
        /// Folder.
        path: PathBuf,
        /// Cause.
        source: ContentStoreError,
    },
    /// The folder of a new registry is not empty.
    #[error("cannot create a registry in `{0}`: the folder is not empty\nhint: choose a new folder")]
    NotEmpty(PathBuf),
    /// The release violates a publishing rule.
    #[error(transparent)]
    Rule(#[from] Box<RuleViolation>),
    /// The release file cannot be parsed.
    #[error("invalid release file")]
    InvalidRelease(#[source] ReleaseError),
    /// The release or its component fails verification.
    #[error("release of `{name}` rejected")]
    Release {
        /// Plugin.
        name: PluginName,
        /// Cause.
        source: ReleaseError,
    },
    /// The signing key does not belong to the namespace.
    #[error(
        "{key} is not a key of namespace `{namespace}`\nhint: sign with a key of the namespace, or ask the registry's \
         maintainer to grant this one"
    )]
    NotAKey {
        /// Signing key, or `an unsigned release`.
        key: String,
        /// Namespace.
        namespace: String,
    },
    /// Unknown plugin or version.
    #[error("the registry does not have `{0}`\nhint: list plugins with `host search`")]
    Unknown(String),
    /// The namespace is already granted.
    #[error("namespace `{0}` is already granted\nhint: its publisher replaces the key with `host registry rotate`")]
    Granted(Namespace),
    /// The namespace is confusable with an existing one.
    #[error("namespace `{namespace}` is too similar to `{other}`\nhint: choose a name that cannot be confused with it")]
    Confusable {
        /// New namespace.
        namespace: Namespace,
        /// Existing namespace.
        other: Namespace,
    },
    /// The root key was replaced.
    #[error("the registry's root key was replaced by {0}\nhint: sign with that key")]
    OldRoot(PublicKey),
    /// Invalid key rotation.
    #[error("cannot replace key {key} of {holder}: {why}")]
    Rotation {
        /// Holder of the key.
        holder: KeyHolder,
        /// Old key.
        key: PublicKey,
        /// Reason.
        why: &'static str,
    },
    /// A file would exceed the size limit of readers.
    #[error("{file} would have {bytes} bytes, but the limit is {limit}\nhint: publish under another name")]
    TooLarge {
        /// Description of the file.
        file: String,
        /// Size in bytes.
        bytes: usize,
        /// Size limit in bytes.
        limit: u64,
    },
    /// The key to revoke is not a retired key.
    #[error(
        "{key} is not a retired key of namespace `{namespace}`\nhint: replace and revoke a current key with \
         `host registry rotate --revoke`"
    )]
    NotRetired {
        /// Namespace.
        namespace: Namespace,
        /// Key.
        key: PublicKey,
    },
    /// JSON serialization failed.
    #[error("cannot serialize the registry's state")]
    Json(#[from] serde_json::Error),
}
