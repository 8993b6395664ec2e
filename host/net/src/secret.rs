//! Secrets: sent in requests and never displayed.

use std::fmt;

/// A key or a token. It does not implement `Display`, and its `Debug` hides the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Replacement for a secret.
const HIDDEN: &str = "[secret]";

/// Minimum length of a word after a space that is removed by itself; shorter words are too common.
const SHORTEST_TOKEN: usize = 6;

impl Secret {
    /// Creates a secret; surrounding white space is removed.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the value for a request.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Removes the secret from a response, such as a page that shows the request's headers. A token is also removed
    /// without its prefix, as in `Bearer TOKEN`.
    #[must_use]
    pub fn hide_in(&self, bytes: Vec<u8>) -> Vec<u8> {
        let token = self.0.rsplit_once(' ').map_or(self.0.as_str(), |(_, token)| token);
        let bytes = without(self.0.as_bytes(), bytes);
        if token.len() >= SHORTEST_TOKEN { without(token.as_bytes(), bytes) } else { bytes }
    }
}

/// Replaces every occurrence of a secret.
fn without(secret: &[u8], bytes: Vec<u8>) -> Vec<u8> {
    if secret.is_empty() || secret.len() > bytes.len() {
        return bytes;
    }
    let mut hidden = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some(place) = rest.windows(secret.len()).position(|window| window == secret) {
        hidden.extend_from_slice(&rest[..place]);
        hidden.extend_from_slice(HIDDEN.as_bytes());
        rest = &rest[place + secret.len()..];
    }
    hidden.extend_from_slice(rest);
    hidden
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden() {
        let secret = Secret::new(" abc\n");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(secret.hide_in(b"abcxabab abc".to_vec()), b"[secret]xabab [secret]");
        assert_eq!(secret.hide_in(b"ab".to_vec()), b"ab");
        let token = Secret::new("Bearer s3cret");
        assert_eq!(token.hide_in(b"s3cret, Bearer s3cret".to_vec()), b"[secret], [secret]");
        assert_eq!(Secret::new("").hide_in(b"ab".to_vec()), b"ab");
    }
}
