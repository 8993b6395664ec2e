//! A signed text: one line of JSON, then one line for each signature over that line's bytes.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{PublicKey, SecretKey};
use crate::hex;

/// The most signatures that one text has.
const MAX_SIGNATURES: usize = 8;

/// What a text is signed as. It stands in front of the text when a signature is made or checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A release of a plugin, by a key of its namespace.
    Release,
    /// The state of a registry, by its root key.
    Checkpoint,
    /// A new key in the place of an old one, by the old one.
    Rotation,
}

impl Purpose {
    /// The bytes that are signed.
    pub(super) fn message(self, text: &[u8]) -> Vec<u8> {
        let name: &[u8] = match self {
            Self::Release => b"gymkhana release 1\n",
            Self::Checkpoint => b"gymkhana checkpoint 1\n",
            Self::Rotation => b"gymkhana rotation 1\n",
        };
        [name, text].concat()
    }
}

/// An Ed25519 signature: 128 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Signature([u8; 64]);

/// A text is no signed one.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// It has no line end, no signature line where one must be, or too many.
    #[error("it is not one line of JSON with at most {MAX_SIGNATURES} lines of signatures below it")]
    Form,
    /// A line is not what it must be.
    #[error("its line {line} is not what it must be")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The named key did not sign it.
    #[error("its signature by {0} is wrong: the text is not what that key signed")]
    Wrong(PublicKey),
    /// The named key is not among its signers.
    #[error("it is not signed by {0}")]
    Unsigned(PublicKey),
}

impl Signature {
    pub(super) fn new(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 64] {
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
        hex::parse(text).map(Self).ok_or_else(|| "a signature is 128 lower-case hexadecimal digits".to_owned())
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

/// A line of JSON and who signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    text: String,
    signatures: Vec<Line>,
}

/// One signature, as it stands in its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: PublicKey,
    signature: Signature,
}

impl Signed {
    /// Writes a value down and signs it with these keys, which may be none: see [`Signed::check`].
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn new(purpose: Purpose, value: &impl Serialize, keys: &[&SecretKey]) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        let line = |key: &&SecretKey| Line { key: key.public(), signature: key.sign(purpose, text.as_bytes()) };
        let signatures = keys.iter().map(line).collect();
        Ok(Self { text, signatures })
    }

    /// Reads a signed text. Nothing is checked yet but its form.
    ///
    /// # Errors
    /// If it has another form.
    pub fn parse(file: &str) -> Result<Self, SignedError> {
        let mut lines = file.strip_suffix('\n').ok_or(SignedError::Form)?.split('\n');
        let text = lines.next().unwrap_or_default().to_owned();
        let signatures: Vec<&str> = lines.collect();
        if text.is_empty() || signatures.len() > MAX_SIGNATURES {
            return Err(SignedError::Form);
        }
        let parsed = signatures.iter().enumerate().map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| SignedError::Line { line: index + 2, source })
        });
        Ok(Self { text, signatures: parsed.collect::<Result<_, _>>()? })
    }

    /// The text as a file holds it.
    #[must_use]
    pub fn file(&self) -> String {
        let mut file = format!("{}\n", self.text);
        for Line { key, signature } in &self.signatures {
            file.push_str(&format!("{{\"key\":\"{key}\",\"signature\":\"{signature}\"}}\n"));
        }
        file
    }

    /// The keys that are said to have signed it.
    pub fn signers(&self) -> impl Iterator<Item = PublicKey> {
        self.signatures.iter().map(|line| line.key)
    }

    /// Sees that this key signed it for this purpose.
    ///
    /// # Errors
    /// If it did not.
    pub fn check(&self, purpose: Purpose, key: &PublicKey) -> Result<(), SignedError> {
        let line = self.signatures.iter().find(|line| line.key == *key).ok_or(SignedError::Unsigned(*key))?;
        let sound = key.signed(purpose, self.text.as_bytes(), &line.signature);
        if sound { Ok(()) } else { Err(SignedError::Wrong(*key)) }
    }

    /// The value, whoever signed it.
    ///
    /// # Errors
    /// If the text is not of this shape.
    pub fn read_unchecked<T: DeserializeOwned>(&self) -> Result<T, SignedError> {
        serde_json::from_str(&self.text).map_err(|source| SignedError::Line { line: 1, source })
    }
}
