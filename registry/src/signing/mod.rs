//! Ed25519 signatures: signed texts, keys, releases, key rotations and the registry checkpoint.
//!
//! A signature covers a line that names its purpose, followed by the exact bytes of the text. The purpose prevents a
//! signed text from being accepted as another type, and signing bytes avoids JSON canonicalization.

mod checkpoint;
mod key;
mod release;
mod rotation;
mod signed;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hex;

pub use checkpoint::{
    AcceptedCheckpoint, CHECKPOINT_SCHEMA, CheckpointError, MAX_CHECKPOINT_BYTES, NamespaceKeys, RegistryCheckpoint,
    ReleaseStatus,
};
pub use key::{KeyFileError, ParseKeyError, PublicKey, SecretKey};
pub use release::{MAX_RELEASE_BYTES, RELEASE_SCHEMA, Release, ReleaseError};
pub use rotation::{KeyHolder, Rotation};
pub use signed::{SignedText, SignedTextError};

/// Purpose of a signature (domain separation). It prefixes the text when a signature is made or verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Plugin release, signed by a key of its namespace.
    Release,
    /// Registry checkpoint, signed by the root key.
    Checkpoint,
    /// Key rotation, signed by the old key.
    Rotation,
}

impl Purpose {
    /// Signed bytes: purpose line and text.
    fn message(self, text: &[u8]) -> Vec<u8> {
        let name: &[u8] = match self {
            Self::Release => b"gymkhana release 1\n",
            Self::Checkpoint => b"gymkhana checkpoint 1\n",
            Self::Rotation => b"gymkhana rotation 1\n",
        };
        [name, text].concat()
    }
}

/// Ed25519 signature, written as 128 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Signature([u8; 64]);

impl Signature {
    fn new(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Signature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex::parse(text)
            .map(Self)
            .ok_or_else(|| "invalid signature: expected 128 lower-case hexadecimal digits".to_owned())
    }
}

impl TryFrom<String> for Signature {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Signature> for String {
    fn from(signature: Signature) -> Self {
        signature.to_string()
    }
}
