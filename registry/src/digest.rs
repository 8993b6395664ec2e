//! Content digests: sha256.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex;

/// SHA-256 digest. Displays as 64 hexadecimal digits, with `{:#}` as `sha256:` and the digits; parses both forms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// The text is not a SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid sha256 digest `{0}`: expected 64 lower-case hexadecimal digits")]
pub struct ParseDigestError(String);

impl Digest {
    /// Digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest of everything written to a hasher.
    #[must_use]
    pub fn from_hasher(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.write_str("sha256:")?;
        }
        hex::write(&self.0, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseDigestError(text.to_owned());
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        hex::parse(digits).map(Self).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Digest {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digest of the message "abc", the example of FIPS 180-4.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digests_are_sha256_and_round_trip() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(format!("{digest:#}"), format!("sha256:{ABC}"));
        assert_eq!(ABC.parse(), Ok(digest));
        assert_eq!(format!("sha256:{ABC}").parse(), Ok(digest));
    }

    #[test]
    fn invalid_digests_are_rejected() {
        let upper = ABC.to_uppercase();
        let wide = format!("é{}", &ABC[..62]);
        for text in ["", "abc", &ABC[1..], upper.as_str(), wide.as_str()] {
            assert_eq!(text.parse::<Digest>(), Err(ParseDigestError(text.to_owned())));
        }
    }
}
