//! What can go wrong between a plugin's name and its bytes.

use std::path::PathBuf;

use gymkhana_registry::{
    CheckpointError, ContentStoreError, Digest, FolderError, IndexError, Namespace, PluginName, PublicKey, FolderReadError,
    ReleaseError, ResolveError,
};
use semver::Version;

use crate::http::FetchError;
use crate::oci::OciError;

/// A plugin cannot be had, or cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum RegistryClientError {
    /// No registry is named for a namespace.
    #[error("no registry serves namespace `{0}`; map it to one under `[namespaces]` in gymkhana-registries.toml")]
    NoRegistry(String),
    /// No registry of that name.
    #[error("there is no registry `{name}`; gymkhana-registries.toml names {known}")]
    UnknownRegistry {
        /// What was asked for.
        name: String,
        /// Those that there are, in words.
        known: String,
    },
    /// The network may not be used.
    #[error("{what} is not in the cache, and --offline asks nobody; run once without --offline")]
    Offline {
        /// What is missing.
        what: String,
    },
    /// A file did not come.
    #[error("{what} cannot be fetched from registry `{registry}`")]
    Fetch {
        /// The registry.
        registry: String,
        /// The file.
        what: String,
        /// Why not.
        source: FetchError,
    },
    /// A folder's file cannot be read.
    #[error("registry `{registry}` cannot be read")]
    Folder {
        /// The registry.
        registry: String,
        /// Why not.
        source: Box<FolderReadError>,
    },
    /// Its state is refused.
    #[error("registry `{registry}` is not used")]
    RegistryCheckpoint {
        /// The registry.
        registry: String,
        /// Why not.
        source: Box<CheckpointError>,
    },
    /// A file is not the one that the checkpoint or a signature names.
    #[error(
        "{what} of registry `{registry}` was altered: its sha256 is {found:.16}… and should be {expected:.16}…; try again, \
         or ask the registry's maintainer", found = found.to_string(), expected = expected.to_string()
    )]
    Altered {
        /// The registry.
        registry: String,
        /// The file.
        what: String,
        /// Of what came.
        found: Digest,
        /// Of what should have come.
        expected: Digest,
    },
    /// An index file is refused.
    #[error("`{name}` of registry `{registry}` is not used")]
    Index {
        /// The registry.
        registry: String,
        /// The plugin, or `catalogue`.
        name: String,
        /// Why not.
        source: Box<IndexError>,
    },
    /// There is no such plugin.
    #[error("registry `{registry}` has no plugin `{name}`{near}")]
    Unknown {
        /// The registry.
        registry: String,
        /// What was asked for.
        name: PluginName,
        /// What was perhaps meant, in words.
        near: String,
    },
    /// No registry has a plugin of that short name.
    #[error("no registry has a plugin called `{name}`{near}; write it with its namespace, such as `gymkhana/{name}`")]
    UnknownShort {
        /// What was asked for.
        name: String,
        /// What was perhaps meant, in words.
        near: String,
    },
    /// Several have one.
    #[error("`{name}` may be {candidates}; write it with its namespace")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// All that it may be.
        candidates: String,
    },
    /// No version fits.
    #[error("plugin `{name}` cannot be resolved in registry `{registry}`")]
    Unresolved {
        /// The registry.
        registry: String,
        /// The plugin.
        name: PluginName,
        /// Why not.
        source: Box<ResolveError>,
    },
    /// The lock says something else than what is asked for.
    #[error("`{wanted}` is not locked, and --locked changes nothing; run once without --locked")]
    NotLocked {
        /// What was asked for.
        wanted: String,
    },
    /// Signed by nobody who may.
    #[error("`{name}` {version} is signed by {signer}, which is no key of namespace `{}`; ask its publisher", name.namespace())]
    NotAKey {
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
        /// Who signed.
        signer: String,
    },
    /// Signed by a key that counts no more.
    #[error(
        "`{name}` {version} is signed by {key}, which namespace `{}` has revoked: what it signed counts no more; take \
         another version with `host update`, or ask its publisher", name.namespace()
    )]
    Revoked {
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
        /// The key.
        key: PublicKey,
    },
    /// A release or a component is refused.
    #[error("`{name}` {version} is refused")]
    Release {
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
        /// Why.
        source: Box<ReleaseError>,
    },
    /// The index and the release that it names say different things.
    #[error(
        "the index of registry `{registry}` says something else of `{name}` {version} than its publisher signed; ask the registry's maintainer"
    )]
    OtherThanSigned {
        /// The registry.
        registry: String,
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
    },
    /// It is here, but by the word of another source.
    #[error(
        "`{name}` {version} is in the cache, but registry `{registry}` has not vouched for it, and --offline asks nobody; \
         run once without --offline"
    )]
    NoProvenance {
        /// The registry that serves it.
        registry: String,
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
    },
    /// The cache cannot be used.
    #[error("the cache of plugins cannot be used")]
    ContentStore(#[from] ContentStoreError),
    /// What was seen of a registry cannot be remembered.
    #[error(
        "`{path}` cannot be {what}, which keeps what was seen of a registry; free space and check that this user may use it"
    )]
    SeenCheckpoints {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An OCI registry said what it should not.
    #[error("`{name}` in OCI registry `{registry}` is not used")]
    Oci {
        /// The registry.
        registry: String,
        /// The plugin.
        name: PluginName,
        /// Why not.
        source: Box<OciError>,
    },
    /// The registry cannot do that.
    #[error("registry `{registry}` {what}")]
    Cannot {
        /// The registry.
        registry: String,
        /// What it cannot, and what to do.
        what: String,
    },
    /// A folder does not take a change.
    #[error("registry `{registry}` does not take it")]
    NotTaken {
        /// The registry.
        registry: String,
        /// Why not.
        source: Box<FolderError>,
    },
    /// The publisher's own key is none of the namespace's.
    #[error(
        "{key} is no current key of namespace `{namespace}` in registry `{registry}`; have its maintainer grant it"
    )]
    NotMyNamespace {
        /// The key.
        key: PublicKey,
        /// The namespace.
        namespace: Namespace,
        /// The registry.
        registry: String,
    },
    /// A server refuses a change.
    #[error("registry `{registry}` refuses: {words}")]
    Refused {
        /// The registry.
        registry: String,
        /// What it says.
        words: String,
    },
    /// A component cannot be published as it is.
    #[error(transparent)]
    Rule(#[from] Box<gymkhana_registry::RuleViolation>),
    /// What should be published is no plugin.
    #[error("what should be published is no plugin")]
    NoPlugin(#[source] gymkhana_registry::ManifestError),
    /// Something cannot be written as JSON.
    #[error("it cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}
