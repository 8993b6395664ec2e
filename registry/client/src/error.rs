//! Errors of resolving, fetching and publishing plugins.

use std::path::PathBuf;

use gymkhana_registry::{
    CheckpointError, ContentStoreError, Digest, FolderError, FolderReadError, IndexError, Namespace, PluginName,
    PublicKey, ReleaseError, ResolveError,
};
use semver::Version;

use crate::oci::error::OciError;
use crate::transport::FetchError;

/// A plugin cannot be resolved, fetched or published.
#[derive(Debug, thiserror::Error)]
pub enum RegistryClientError {
    /// No registry is configured for a namespace.
    #[error("no registry serves namespace `{0}`\nhint: map it under `[namespaces]` in gymkhana-registries.toml")]
    NoRegistry(String),
    /// No registry is configured at all.
    #[error(
        "no registry is configured\nhint: add one to gymkhana-registries.toml with the lines that `host registry init` \
         prints; docs/how-to/use-plugins-from-a-registry.md explains them"
    )]
    NoRegistries,
    /// Unknown registry name.
    #[error(
        "unknown registry `{name}`: gymkhana-registries.toml defines {known}\nhint: add it under `[registries]` with \
         the lines that `host registry init` prints"
    )]
    UnknownRegistry {
        /// Requested registry.
        name: String,
        /// Known registries.
        known: String,
    },
    /// The request needs the network in offline mode.
    #[error("{what} is not in the cache, and --offline disables the network\nhint: run once without --offline")]
    Offline {
        /// Description of the missing data.
        what: String,
    },
    /// A file cannot be fetched.
    #[error("cannot fetch {what} from registry `{registry}`")]
    Fetch {
        /// Registry name.
        registry: String,
        /// Description of the file.
        what: String,
        /// Cause.
        source: FetchError,
    },
    /// A registry folder cannot be read.
    #[error("cannot read registry `{registry}`")]
    Folder {
        /// Registry name.
        registry: String,
        /// Cause.
        source: Box<FolderReadError>,
    },
    /// Rejected checkpoint.
    #[error("cannot use registry `{registry}`")]
    Checkpoint {
        /// Registry name.
        registry: String,
        /// Cause.
        source: Box<CheckpointError>,
    },
    /// The digest of a file differs from the one in the checkpoint or release.
    #[error(
        "{what} of registry `{registry}` was modified: its sha256 is {found:.16}… instead of {expected:.16}…\nhint: try \
         again, or report this to the registry's maintainer",
        found = found.to_string(),
        expected = expected.to_string()
    )]
    DigestMismatch {
        /// Registry name.
        registry: String,
        /// Description of the file.
        what: String,
        /// Digest of the received bytes.
        found: Digest,
        /// Expected digest.
        expected: Digest,
    },
    /// Rejected index file.
    #[error("cannot use `{name}` of registry `{registry}`")]
    Index {
        /// Registry name.
        registry: String,
        /// Plugin name, or `catalogue`.
        name: String,
        /// Cause.
        source: Box<IndexError>,
    },
    /// Unknown plugin.
    #[error("registry `{registry}` does not have plugin `{name}`{}", suggestion(.nearest.as_ref()))]
    UnknownPlugin {
        /// Registry name.
        registry: String,
        /// Requested plugin.
        name: PluginName,
        /// Most similar known plugin.
        nearest: Option<PluginName>,
    },
    /// Unknown short name.
    #[error(
        "no registry has a plugin named `{name}`{}",
        .nearest.as_ref().map_or_else(
            || "\nhint: `host search` lists the plugins of all registries".to_owned(),
            |nearest| suggestion(Some(nearest))
        )
    )]
    UnknownShortName {
        /// Requested name.
        name: String,
        /// Most similar known plugin.
        nearest: Option<PluginName>,
    },
    /// Several plugins have the short name.
    #[error("`{name}` is ambiguous: it can be {candidates}\nhint: write it with its namespace")]
    Ambiguous {
        /// Requested name.
        name: String,
        /// Matching plugins.
        candidates: String,
    },
    /// Version resolution failed.
    #[error("cannot resolve plugin `{name}` in registry `{registry}`")]
    Unresolved {
        /// Registry name.
        registry: String,
        /// Plugin.
        name: PluginName,
        /// Cause.
        source: Box<ResolveError>,
    },
    /// The lock file does not satisfy a requirement.
    #[error("`{requirement}` is not locked, and --locked forbids changes\nhint: run once without --locked")]
    NotLocked {
        /// Requirement.
        requirement: String,
    },
    /// The release is signed by an unknown key.
    #[error(
        "`{name}` {version} is signed by {signer}, which is not a key of namespace `{}`\nhint: report this to its publisher",
        name.namespace()
    )]
    NotAKey {
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
        /// Signing key, or `no key`.
        signer: String,
    },
    /// The release is signed by a revoked key.
    #[error(
        "`{name}` {version} is signed by {key}, which namespace `{}` has revoked: releases signed by a revoked key are \
         ignored\nhint: switch to another version with `host update`, or ask its publisher for a new release",
        name.namespace()
    )]
    Revoked {
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
        /// Revoked key.
        key: PublicKey,
    },
    /// Rejected release or component.
    #[error("`{name}` {version} was rejected")]
    Release {
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
        /// Cause.
        source: Box<ReleaseError>,
    },
    /// The index row differs from the signed release.
    #[error(
        "the index of registry `{registry}` contradicts the signed release of `{name}` {version}\nhint: report this to the \
         registry's maintainer"
    )]
    IndexMismatch {
        /// Registry name.
        registry: String,
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
    },
    /// A cached component has no provenance from the configured registry.
    #[error(
        "`{name}` {version} is cached from another source, and --offline prevents verification with registry `{registry}`\n\
         hint: run once without --offline"
    )]
    NoProvenance {
        /// Registry that serves the plugin.
        registry: String,
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
    },
    /// The cache cannot be used.
    #[error("cannot use the plugin cache")]
    Cache(#[from] ContentStoreError),
    /// The record of seen checkpoints cannot be read or written.
    #[error("cannot {operation} `{path}`, the record of seen registries\nhint: check free disk space and permissions")]
    Seen {
        /// Attempted operation.
        operation: &'static str,
        /// File.
        path: PathBuf,
        /// I/O error.
        source: std::io::Error,
    },
    /// The record of seen checkpoints was modified.
    #[error(
        "cannot use `{path}`, the record of a seen registry: it was modified or damaged\nhint: restore it from a backup"
    )]
    SeenDamaged {
        /// File.
        path: PathBuf,
        /// Cause.
        source: Box<CheckpointError>,
    },
    /// Invalid content of an OCI registry.
    #[error("cannot use `{name}` in OCI registry `{registry}`")]
    Oci {
        /// Registry name.
        registry: String,
        /// Plugin.
        name: PluginName,
        /// Cause.
        source: Box<OciError>,
    },
    /// The registry does not support the operation, or a setting is missing.
    #[error("registry `{registry}` {problem}")]
    Unsupported {
        /// Registry name.
        registry: String,
        /// Problem, with a hint.
        problem: String,
    },
    /// A registry folder rejected a change.
    #[error("registry `{registry}` rejected the change")]
    RejectedByFolder {
        /// Registry name.
        registry: String,
        /// Cause.
        source: Box<FolderError>,
    },
    /// The publisher's key is not a current key of the namespace.
    #[error(
        "{key} is not a current key of namespace `{namespace}` in registry `{registry}`\nhint: if the namespace is \
         yours, ask its maintainer to grant the key; otherwise publish under your own namespace"
    )]
    NotMyNamespace {
        /// Publisher's key.
        key: PublicKey,
        /// Namespace.
        namespace: Namespace,
        /// Registry name.
        registry: String,
    },
    /// A registry server rejected a change.
    #[error("registry `{registry}` rejected the change: {message}")]
    RejectedByServer {
        /// Registry name.
        registry: String,
        /// Message of the server.
        message: String,
    },
    /// A registry server does not know the publishing token.
    #[error(
        "registry `{registry}` rejected the change: a valid token of this registry is required, and the one in {variable} \
         is unknown or revoked\nhint: ask its maintainer for a new one, from `host registry token`"
    )]
    UnknownToken {
        /// Registry name.
        registry: String,
        /// Environment variable with the token.
        variable: String,
    },
    /// The component violates a publishing rule.
    #[error(transparent)]
    Rule(#[from] Box<gymkhana_registry::RuleViolation>),
    /// The file to publish is not a plugin.
    #[error("the file to publish is not a plugin")]
    NotAPlugin(#[source] gymkhana_registry::ManifestError),
    /// JSON serialization failed.
    #[error("cannot serialize a request")]
    Json(#[from] serde_json::Error),
}

fn suggestion(nearest: Option<&PluginName>) -> String {
    nearest.map(|name| format!("\nhint: a similar name is `{name}`")).unwrap_or_default()
}
