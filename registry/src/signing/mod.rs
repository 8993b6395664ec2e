//! Ed25519 signatures: keys, signed texts, releases, key rotations and the registry checkpoint.
//!
//! A signature covers a line that names its purpose, followed by the exact bytes of the text. The purpose prevents a
//! signed text from being accepted as another type, and signing bytes avoids JSON canonicalization.

mod checkpoint;
mod key;
mod release;
mod rotation;
mod signature;
mod signed;

pub use checkpoint::{
    AcceptedCheckpoint, CHECKPOINT_SCHEMA, CheckpointError, MAX_CHECKPOINT_BYTES, NamespaceKeys, RegistryCheckpoint,
    ReleaseStatus,
};
pub use key::{KeyFileError, ParseKeyError, PublicKey, SecretKey};
pub use release::{MAX_RELEASE_BYTES, RELEASE_SCHEMA, Release, ReleaseError};
pub use rotation::{KeyHolder, Rotation};
pub use signature::{Purpose, Signature};
pub use signed::{SignedText, SignedTextError};
