//! Ed25519 keys: a secret one in a file that nobody else can read, and the public one that names who signed.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::signed::{Purpose, Signature};
use crate::hex;

/// How a public key's text begins.
const PREFIX: &str = "ed25519:";
/// How a secret key's file begins.
const SECRET_PREFIX: &str = "gymkhana-secret-key ed25519 ";
/// The most that is read of a file that should hold a key, in bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// A public key. Its text, `ed25519:` and 64 hexadecimal digits, is its only name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

/// A text is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no public key; one is `ed25519:` and 64 hexadecimal digits, as `host keygen` prints it")]
pub struct ParseKeyError(String);

/// A secret key. It shows itself to nobody and is wiped when it goes.
pub struct SecretKey(SigningKey);

/// A key's file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others could read it.
    #[error("the secret key `{path}` can be read by others; run `chmod 600 {path}`, and replace the key if they did")]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("`{path}` holds no secret key; give the file that `host keygen` wrote")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A new key would overwrite a file.
    #[error("`{path}` is there already, and a key is never overwritten; choose another file")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers to make a key from; try again on a machine that does")]
    Random(#[from] getrandom::Error),
    /// Anything else.
    #[error("the key `{path}` cannot be {what}; check the path and that this user may use it")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl PublicKey {
    /// Whether this key signed the text for the purpose.
    #[must_use]
    pub fn signed(&self, purpose: Purpose, text: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
        // Strict: no second encoding of a signature, and none under a key of small order, passes.
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
        // A point that is not on the curve, or one of small order, is no key that anybody holds.
        let sound = |bytes: &[u8; 32]| VerifyingKey::from_bytes(bytes).is_ok_and(|key| !key.is_weak());
        bytes.filter(sound).map(Self).ok_or_else(|| ParseKeyError(text.to_owned()))
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
    /// A new key from the system's random numbers.
    ///
    /// # Errors
    /// If the system has none.
    pub fn generate() -> Result<Self, KeyFileError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(Self::from_seed(seed))
    }

    /// The key of a seed, for tests and for those who keep seeds elsewhere.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs a text for a purpose.
    #[must_use]
    pub fn sign(&self, purpose: Purpose, text: &[u8]) -> Signature {
        Signature::new(self.0.sign(&purpose.message(text)).to_bytes())
    }

    /// Writes the key into a new file that this user alone can read.
    ///
    /// # Errors
    /// If the file is there already or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.to_owned() },
            _ => KeyFileError::File { what: "written", path: path.to_owned(), source },
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let written = writeln!(file, "{SECRET_PREFIX}{}", SecretDigits(self)).and_then(|()| file.sync_all());
        written.map_err(failed)
    }

    /// Reads a key's file.
    ///
    /// # Errors
    /// If others could read it too, if it holds no key, or if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let failed = |source| KeyFileError::File { what: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(KeyFileError::Open { path: path.to_owned() });
        }
        let no_key = || KeyFileError::NoKey { path: path.to_owned() };
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(failed)?;
        let text = std::str::from_utf8(&text).map_err(|_| no_key())?;
        let seed = text.trim_end().strip_prefix(SECRET_PREFIX).and_then(hex::parse);
        seed.map(Self::from_seed).ok_or_else(no_key)
    }
}

/// A secret key's digits, on their way into its file.
struct SecretDigits<'a>(&'a SecretKey);

impl fmt::Display for SecretDigits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(self.0.0.as_bytes(), f)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the secret key of {}", self.public())
    }
}
