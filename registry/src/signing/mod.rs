//! Who says what: keys, signed texts, releases and the checkpoint that speaks for a whole registry.
//!
//! Ed25519 everywhere. A signature is made over a line that names its purpose and then the text's own bytes, so that
//! nothing that was signed as one thing can pass for another, and no JSON has to be written twice alike.

mod checkpoint;
mod key;
mod release;
mod rotation;
mod signed;

pub use checkpoint::{Accepted, CHECKPOINT_SCHEMA, Checkpoint, CheckpointError, Keys, MAX_CHECKPOINT_BYTES, Standing};
pub use key::{KeyFileError, ParseKeyError, PublicKey, SecretKey};
pub use release::{MAX_RELEASE_BYTES, RELEASE_SCHEMA, Release, ReleaseError};
pub use rotation::{Holder, Rotation};
pub use signed::{Purpose, Signature, Signed, SignedError};
