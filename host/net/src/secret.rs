//! Secrets: sent in requests and never displayed.

use std::fmt;
use std::sync::Arc;

use crate::redactor::SecretRedactor;

/// A key or a token. It does not implement `Display`, and its `Debug` hides the value.
#[derive(Clone)]
pub struct Secret {
    value: String,
    redactor: Arc<SecretRedactor>,
}

/// Replacement for a secret.
const HIDDEN: &str = "[secret]";

impl Secret {
    /// Creates a secret; surrounding white space is removed.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let value = text.trim().to_owned();
        Self { redactor: Arc::new(SecretRedactor::of(&value)), value }
    }

    /// Returns the value for a request.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.value
    }

    /// Removes the secret from a response, such as a page that shows the request's headers: the value, its part after
    /// the last space (as in `Bearer TOKEN`), and name and password of a `Basic` value; each in plain text, with JSON
    /// escapes, percent-encoded, as a form field, and in base64.
    #[must_use]
    pub fn hide_in(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.redactor.hide(bytes, HIDDEN.as_bytes())
    }

    /// As [`Secret::hide_in`], for text.
    #[must_use]
    pub fn hide_in_text(&self, text: String) -> String {
        // Whole characters are replaced, so the rest stays UTF-8.
        String::from_utf8_lossy(&self.hide_in(text.into_bytes())).into_owned()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Secret {}

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
