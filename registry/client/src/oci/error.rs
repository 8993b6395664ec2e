//! Errors of OCI registries.

use gymkhana_registry::ReleaseError;
use semver::Version;

/// The content of an OCI registry was rejected.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// Malformed JSON.
    #[error("the {file} is damaged\nhint: report this to the registry's maintainer")]
    Json {
        /// Description of the file.
        file: &'static str,
        /// JSON error.
        source: serde_json::Error,
    },
    /// The repository sends more than a limit.
    #[error(
        "the repository has {found} {what}, but the limit is {limit}\nhint: require fewer versions, such as `@=1.2.3`, or \
         report this to the registry's maintainer"
    )]
    TooMuch {
        /// Description of the counted data.
        what: &'static str,
        /// Amount so far.
        found: u64,
        /// Limit.
        limit: u64,
    },
    /// The manifest does not describe a component.
    #[error("version {version} is not a component in the layout of `wkg`: {why}")]
    Layout {
        /// Version.
        version: Version,
        /// Reason.
        why: &'static str,
    },
    /// Missing signature of a trusted key.
    #[error(
        "version {version} is not signed by one of the registry's `keys`\nhint: ask its publisher, or set `unsigned = true` \
         for a registry that you trust"
    )]
    Unsigned {
        /// Version.
        version: Version,
    },
    /// The release file and the manifest disagree.
    #[error("version {version} differs from the release that its publisher signed\nhint: report this to its publisher")]
    ReleaseMismatch {
        /// Version.
        version: Version,
    },
    /// Rejected release.
    #[error("version {version} was rejected")]
    Release {
        /// Version.
        version: Version,
        /// Cause.
        source: ReleaseError,
    },
    /// Another publisher overwrote the tag.
    #[error("version {version} was overwritten by a concurrent publication of the same version")]
    Overwritten {
        /// Version.
        version: Version,
    },
}
