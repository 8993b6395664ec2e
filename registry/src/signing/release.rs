//! A release: a publisher's signed statement about one component.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{PublicKey, Purpose, SecretKey, SignedText, SignedTextError};
use crate::{Digest, MAX_DESCRIPTION_BYTES, Manifest, ManifestError, Report, SelfDescription, exports, read_manifest};

/// Release schema that this crate reads.
pub const RELEASE_SCHEMA: u32 = 1;

/// Size limit of a release file in bytes (1 MiB, mostly the conformance report).
pub const MAX_RELEASE_BYTES: u64 = 1 << 20;

/// A publisher's statement about a component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// [`RELEASE_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// SHA-256 of the component.
    pub digest: Digest,
    /// Size of the component in bytes.
    pub size: u64,
    /// Manifest of the component.
    pub manifest: Manifest,
    /// Exported interfaces without the package version.
    pub exports: BTreeSet<String>,
    /// Conformance report, if one was made.
    pub report: Option<Report>,
    /// Answers of the plugin about itself under default options; absent in releases of older hosts and of plugins that
    /// cannot be asked. The publisher states it, and no check compares it with the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<SelfDescription>,
}

/// A release was rejected. The caller names the release.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Malformed release file.
    #[error("the release file is damaged\nhint: report this to its publisher")]
    Damaged(#[source] SignedTextError),
    /// Unsupported schema.
    #[error("the release file has schema {0}, but this host reads {RELEASE_SCHEMA}\nhint: use a newer host")]
    Schema(u32),
    /// The self-description exceeds [`MAX_DESCRIPTION_BYTES`].
    #[error(
        "the self-description in the release has {0} bytes, but the limit is {MAX_DESCRIPTION_BYTES}\nhint: shorten the \
         texts and schemas of the plugin's options and functions"
    )]
    DescriptionTooLarge(usize),
    /// Missing or invalid signature.
    #[error("the release signature was rejected\nhint: report this to its publisher")]
    Signature(#[source] SignedTextError),
    /// The digest or size of the component differs from the release.
    #[error(
        "the component has sha256 {found:.16}…, but the release is for {signed:.16}…\nhint: fetch or build it again",
        found = found.to_string(),
        signed = signed.to_string()
    )]
    DigestMismatch {
        /// Digest of the component.
        found: Digest,
        /// Signed digest.
        signed: Digest,
    },
    /// The component is not a plugin.
    #[error("the file is not a plugin")]
    NotAPlugin(#[from] ManifestError),
    /// The manifest of the component differs from the signed one.
    #[error("the manifest of the component differs from the signed manifest\nhint: report this to its publisher")]
    ManifestMismatch,
    /// The exports of the component differ from the signed ones.
    #[error("the exports of the component differ from the signed exports\nhint: report this to its publisher")]
    ExportMismatch,
}

impl Release {
    /// Builds the release of a component.
    ///
    /// # Errors
    /// If the bytes are not a plugin.
    pub fn of(component: &[u8], report: Option<Report>) -> Result<Self, ManifestError> {
        let manifest = read_manifest(component)?;
        Ok(Self {
            schema: RELEASE_SCHEMA,
            digest: Digest::of(component),
            size: component.len() as u64,
            manifest,
            exports: interfaces(component)?,
            report,
            description: None,
        })
    }

    /// Text of the release file, signed if a key is given.
    ///
    /// # Errors
    /// If serialization fails, which does not happen for valid releases.
    pub fn sign(&self, key: Option<&SecretKey>) -> Result<String, serde_json::Error> {
        Ok(SignedText::new(Purpose::Release, self, key.as_slice())?.file())
    }

    /// Parses a release file and verifies the signature of `signer`; `None` skips the verification for unsigned registries.
    ///
    /// # Errors
    /// If the file is damaged, the signature is missing or invalid, or the self-description is too large.
    pub fn read(file: impl AsRef<[u8]>, signer: Option<&PublicKey>) -> Result<Self, ReleaseError> {
        let signed = SignedText::parse(file).map_err(ReleaseError::Damaged)?;
        if let Some(signer) = signer {
            signed.verify(Purpose::Release, signer).map_err(ReleaseError::Signature)?;
        }
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
            /// Measured as it was written: with the keys that this host does not know.
            description: Option<serde_json::Value>,
        }
        let Head { schema, description } = signed.read_unverified().map_err(ReleaseError::Damaged)?;
        if schema != RELEASE_SCHEMA {
            return Err(ReleaseError::Schema(schema));
        }
        match description.map_or(0, |description| description.to_string().len()) {
            0..=MAX_DESCRIPTION_BYTES => signed.read_unverified().map_err(ReleaseError::Damaged),
            bytes => Err(ReleaseError::DescriptionTooLarge(bytes)),
        }
    }

    /// Checks digest, size, manifest and exports of a component.
    ///
    /// # Errors
    /// If one of them differs from the release.
    pub fn check_component(&self, component: &[u8]) -> Result<(), ReleaseError> {
        let found = Digest::of(component);
        if found != self.digest || component.len() as u64 != self.size {
            return Err(ReleaseError::DigestMismatch { found, signed: self.digest });
        }
        if read_manifest(component)? != self.manifest {
            return Err(ReleaseError::ManifestMismatch);
        }
        if interfaces(component)? != self.exports {
            return Err(ReleaseError::ExportMismatch);
        }
        Ok(())
    }
}

/// Exported interfaces of a component without the package version.
fn interfaces(component: &[u8]) -> Result<BTreeSet<String>, ManifestError> {
    let exported = exports(component).map_err(ManifestError::Component)?;
    Ok(exported.iter().map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect())
}
