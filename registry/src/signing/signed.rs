//! Signed text: one line of JSON, followed by one line per signature over the bytes of the first.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{PublicKey, Purpose, SecretKey, Signature};

/// Maximum number of signatures of one text.
const MAX_SIGNATURES: usize = 8;

/// A signed text was rejected.
#[derive(Debug, thiserror::Error)]
pub enum SignedTextError {
    /// Wrong number of lines or missing final line end.
    #[error("malformed signed text: expected one line of JSON and at most {MAX_SIGNATURES} signature lines")]
    Form,
    /// Not UTF-8.
    #[error("the signed text is not UTF-8")]
    NotUtf8(#[from] std::str::Utf8Error),
    /// Malformed line.
    #[error("line {line} is malformed")]
    Line {
        /// Line number, starting at 1.
        line: usize,
        /// JSON error.
        source: serde_json::Error,
    },
    /// Invalid signature.
    #[error("the signature of {0} is invalid: the text was modified after signing")]
    InvalidSignature(PublicKey),
    /// Missing signature of the key.
    #[error("the signature of {0} is missing")]
    Unsigned(PublicKey),
}

/// A line of JSON with its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedText {
    text: String,
    signatures: Vec<SignatureLine>,
}

/// JSON of one signature line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureLine {
    key: PublicKey,
    signature: Signature,
}

impl SignedText {
    /// Serializes a value and signs it with each key; `keys` may be empty.
    ///
    /// # Errors
    /// If serialization fails.
    pub fn new(purpose: Purpose, value: &impl Serialize, keys: &[&SecretKey]) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        let line =
            |key: &&SecretKey| SignatureLine { key: key.public(), signature: key.sign(purpose, text.as_bytes()) };
        let signatures = keys.iter().map(line).collect();
        Ok(Self { text, signatures })
    }

    /// Parses a signed text without verifying its signatures.
    ///
    /// # Errors
    /// If the bytes are not UTF-8 or the text is malformed.
    pub fn parse(file: impl AsRef<[u8]>) -> Result<Self, SignedTextError> {
        let file = std::str::from_utf8(file.as_ref())?;
        let mut lines = file.strip_suffix('\n').ok_or(SignedTextError::Form)?.split('\n');
        // `split` yields at least one item.
        let text = lines.next().ok_or(SignedTextError::Form)?.to_owned();
        let signatures: Vec<&str> = lines.collect();
        if text.is_empty() || signatures.len() > MAX_SIGNATURES {
            return Err(SignedTextError::Form);
        }
        let parsed = signatures.iter().enumerate().map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| SignedTextError::Line { line: index + 2, source })
        });
        Ok(Self { text, signatures: parsed.collect::<Result<_, _>>()? })
    }

    /// Text of the file.
    #[must_use]
    pub fn file(&self) -> String {
        let mut file = format!("{}\n", self.text);
        for SignatureLine { key, signature } in &self.signatures {
            file.push_str(&format!("{{\"key\":\"{key}\",\"signature\":\"{signature}\"}}\n"));
        }
        file
    }

    /// Keys of the signature lines, not verified.
    pub fn signers(&self) -> impl Iterator<Item = PublicKey> {
        self.signatures.iter().map(|line| line.key)
    }

    /// Verifies the signature of a key for a purpose.
    ///
    /// # Errors
    /// If the signature is missing or invalid.
    pub fn verify(&self, purpose: Purpose, key: &PublicKey) -> Result<(), SignedTextError> {
        let line = self.signatures.iter().find(|line| line.key == *key).ok_or(SignedTextError::Unsigned(*key))?;
        let is_valid = key.verifies(purpose, self.text.as_bytes(), &line.signature);
        if is_valid { Ok(()) } else { Err(SignedTextError::InvalidSignature(*key)) }
    }

    /// Deserializes the value without verifying signatures.
    ///
    /// # Errors
    /// If the JSON does not match the type.
    pub fn read_unverified<T: DeserializeOwned>(&self) -> Result<T, SignedTextError> {
        serde_json::from_str(&self.text).map_err(|source| SignedTextError::Line { line: 1, source })
    }
}
