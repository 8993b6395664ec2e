//! A release: what a publisher signs about one component.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{PublicKey, Purpose, SecretKey, Signed, SignedError};
use crate::{Digest, Manifest, ManifestError, Report, exports, read_manifest};

/// The number of the release's shape.
pub const RELEASE_SCHEMA: u32 = 1;

/// The largest release file that is read, in bytes: 1 MiB, most of it the report.
pub const MAX_RELEASE_BYTES: u64 = 1 << 20;

/// What a publisher says of a component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// [`RELEASE_SCHEMA`] when it was written.
    pub schema: u32,
    /// The sha256 of the component.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The manifest that it carries.
    pub manifest: Manifest,
    /// The interfaces that it exports, without the versions of their package.
    pub exports: BTreeSet<String>,
    /// What a conformance suite found out about it, if one was asked.
    pub report: Option<Report>,
}

/// A release is refused. The caller says which.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// It is no signed text, or not of a release's shape.
    #[error("its release file is damaged or altered; ask its publisher")]
    Damaged(#[source] SignedError),
    /// Its shape is newer than this host.
    #[error("its release file has schema {0} and this host reads {RELEASE_SCHEMA}; use a newer host")]
    Schema(u32),
    /// Not signed by the key that should have.
    #[error("its release is not signed as it must be; ask its publisher")]
    Signature(#[source] SignedError),
    /// The component is another one.
    #[error("the component's sha256 is {found:.16}…, and the release is of {signed:.16}…; fetch or build it again", found = found.to_string(), signed = signed.to_string())]
    AnotherComponent {
        /// Of the bytes that are there.
        found: Digest,
        /// Of the bytes that were signed.
        signed: Digest,
    },
    /// The file is no plugin.
    #[error("the file is no plugin")]
    NoPlugin(#[from] ManifestError),
    /// The manifest in the component is not the one that was signed.
    #[error("the manifest in the component is not the one that its publisher signed; ask its publisher")]
    AnotherManifest,
    /// The exports of the component are not those that were signed.
    #[error("the component does not export what its publisher signed; ask its publisher")]
    OtherExports,
}

impl Release {
    /// The release of a component.
    ///
    /// # Errors
    /// If the bytes are no plugin.
    pub fn of(component: &[u8], report: Option<Report>) -> Result<Self, ManifestError> {
        let manifest = read_manifest(component)?;
        Ok(Self {
            schema: RELEASE_SCHEMA,
            digest: Digest::of(component),
            size: component.len() as u64,
            manifest,
            exports: interfaces(component)?,
            report,
        })
    }

    /// The release's file, signed.
    ///
    /// # Errors
    /// Never in practice: it can be written as JSON.
    pub fn sign(&self, key: Option<&SecretKey>) -> Result<String, serde_json::Error> {
        Ok(Signed::new(Purpose::Release, self, key.as_slice())?.file())
    }

    /// Reads a release file that this key must have signed; none where the user has said that a source is unsigned.
    ///
    /// # Errors
    /// If it is damaged, or the key did not sign it.
    pub fn read(file: &str, signer: Option<&PublicKey>) -> Result<Self, ReleaseError> {
        let signed = Signed::parse(file).map_err(ReleaseError::Damaged)?;
        if let Some(signer) = signer {
            signed.check(Purpose::Release, signer).map_err(ReleaseError::Signature)?;
        }
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        match signed.read_unchecked().map_err(ReleaseError::Damaged)? {
            Schema { schema: RELEASE_SCHEMA } => signed.read_unchecked().map_err(ReleaseError::Damaged),
            Schema { schema } => Err(ReleaseError::Schema(schema)),
        }
    }

    /// Sees that a component is the one that was signed.
    ///
    /// # Errors
    /// If it is another, or not what was said of it.
    pub fn check_component(&self, component: &[u8]) -> Result<(), ReleaseError> {
        let found = Digest::of(component);
        if found != self.digest || component.len() as u64 != self.size {
            return Err(ReleaseError::AnotherComponent { found, signed: self.digest });
        }
        if read_manifest(component)? != self.manifest {
            return Err(ReleaseError::AnotherManifest);
        }
        if interfaces(component)? != self.exports {
            return Err(ReleaseError::OtherExports);
        }
        Ok(())
    }
}

/// What a component exports, each interface without its package's version: that is the contract's matter.
fn interfaces(component: &[u8]) -> Result<BTreeSet<String>, ManifestError> {
    let exported = exports(component).map_err(ManifestError::Component)?;
    Ok(exported.iter().map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect())
}
