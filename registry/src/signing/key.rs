//! Ed25519 keys: a secret key in a file with mode 0600, and the public key that identifies its holder.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::{Purpose, Signature};
use crate::hex;

/// Prefix of a public key's text.
const PREFIX: &str = "ed25519:";
/// Prefix of a secret key file.
const SECRET_PREFIX: &str = "gymkhana-secret-key ed25519 ";
/// Size limit of a secret key file in bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// Public key, written as `ed25519:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

/// The text is not a valid public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid public key `{0}`: expected `ed25519:` and 64 hexadecimal digits, as printed by `host keygen`")]
pub struct ParseKeyError(String);

/// Secret key. `Debug` shows only the public key, and the memory is zeroed on drop.
pub struct SecretKey(SigningKey);

/// A secret key file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file permissions let other users read the key.
    #[error(
        "other users can read the secret key `{path}`\nhint: run `chmod 600 {path}`, and replace the key if it may have leaked"
    )]
    Readable {
        /// File.
        path: PathBuf,
    },
    /// The file does not contain a key.
    #[error("`{path}` does not contain a secret key\nhint: pass the file that `host keygen` wrote")]
    NoKey {
        /// File.
        path: PathBuf,
    },
    /// The file exists.
    #[error(
        "cannot write the key `{path}`: the file exists\nhint: choose another file, or print its public key with `host \
         keygen {path} --show`"
    )]
    Exists {
        /// File.
        path: PathBuf,
    },
    /// The operating system's random number generator failed.
    #[error("cannot generate a key: the system's random number generator failed")]
    Random(#[from] getrandom::Error),
    /// I/O error.
    #[error("cannot {operation} the key `{path}`\nhint: check the path and its permissions")]
    File {
        /// Attempted operation.
        operation: &'static str,
        /// File.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

impl PublicKey {
    /// Verifies a signature of this key over a text with a purpose.
    #[must_use]
    pub fn verifies(&self, purpose: Purpose, text: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
        // Strict verification rejects malleable signatures and keys of small order.
        VerifyingKey::from_bytes(&self.0).is_ok_and(|key| key.verify_strict(&purpose.message(text), &signature).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        hex::write(&self.0, f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = text.strip_prefix(PREFIX).and_then(hex::parse);
        // Points off the curve and points of small order are invalid keys.
        let is_valid = |bytes: &[u8; 32]| VerifyingKey::from_bytes(bytes).is_ok_and(|key| !key.is_weak());
        bytes.filter(is_valid).map(Self).ok_or_else(|| ParseKeyError(text.to_owned()))
    }
}

impl TryFrom<String> for PublicKey {
    type Error = ParseKeyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl SecretKey {
    /// Generates a key from the operating system's random number generator.
    ///
    /// # Errors
    /// If the generator fails.
    pub fn generate() -> Result<Self, KeyFileError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(Self::from_seed(seed))
    }

    /// Derives the key from a 32-byte seed.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Public half of the key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs a text for a purpose.
    #[must_use]
    pub fn sign(&self, purpose: Purpose, text: &[u8]) -> Signature {
        Signature::new(self.0.sign(&purpose.message(text)).to_bytes())
    }

    /// Writes the key to a new file with mode 0600.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.to_owned() },
            _ => KeyFileError::File { operation: "write", path: path.to_owned(), source },
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let written = writeln!(file, "{SECRET_PREFIX}{}", SecretDigits(self)).and_then(|()| file.sync_all());
        written.map_err(failed)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// If other users can read the file, if it does not contain a key, or if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let failed = |source| KeyFileError::File { operation: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(KeyFileError::Readable { path: path.to_owned() });
        }
        let no_key = || KeyFileError::NoKey { path: path.to_owned() };
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(failed)?;
        let text = std::str::from_utf8(&text).map_err(|_| no_key())?;
        let seed = text.trim_end().strip_prefix(SECRET_PREFIX).and_then(hex::parse);
        seed.map(Self::from_seed).ok_or_else(no_key)
    }
}

/// Displays the hexadecimal digits of a secret key.
struct SecretDigits<'a>(&'a SecretKey);

impl fmt::Display for SecretDigits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(self.0.0.as_bytes(), f)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public())
    }
}
