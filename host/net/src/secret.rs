//! A text that is sent where it must and shown to nobody.

use std::fmt;

/// A key or a token. It has no `Display`, and its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What stands where a secret stood.
const HIDDEN: &str = "[secret]";

/// A shorter word behind a space is too common to be taken out by itself.
const SHORTEST_TOKEN: usize = 6;

impl Secret {
    /// Keeps a secret, without white space around it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The value itself, for the request that carries it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes the secret out of what a server sent back, such as a page that shows the request's headers; a token also
    /// without the word before it, as in `Bearer TOKEN`.
    #[must_use]
    pub fn hide_in(&self, bytes: Vec<u8>) -> Vec<u8> {
        let token = self.0.rsplit(' ').next().unwrap_or_default();
        let bytes = without(self.0.as_bytes(), bytes);
        if token.len() >= SHORTEST_TOKEN { without(token.as_bytes(), bytes) } else { bytes }
    }
}

/// The bytes with something else in the place of a secret.
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
    fn nobody_sees_it() {
        let secret = Secret::new(" abc\n");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(secret.hide_in(b"abcxabab abc".to_vec()), b"[secret]xabab [secret]");
        assert_eq!(secret.hide_in(b"ab".to_vec()), b"ab");
        let token = Secret::new("Bearer s3cret");
        assert_eq!(token.hide_in(b"s3cret, Bearer s3cret".to_vec()), b"[secret], [secret]");
        assert_eq!(Secret::new("").hide_in(b"ab".to_vec()), b"ab");
    }
}
