//! Plugin names: `namespace/name`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 64;

/// Full plugin name, such as `gymkhana/calculator`. Each half has 1 to 64 lower-case letters, digits or `-` and neither
/// starts nor ends with `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginName {
    namespace: String,
    name: String,
}

/// The namespace half of a plugin name. Holders of its keys may publish in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

/// The text is not a valid namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid namespace `{0}`: expected 1 to {MAX_LENGTH} lower-case letters, digits or `-`, not starting or ending with `-`"
)]
pub struct ParseNamespaceError(String);

impl Namespace {
    /// Returns the namespace as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Namespace {
    type Err = ParseNamespaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for Namespace {
    type Error = ParseNamespaceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if is_valid_word(&text) { Ok(Self(text)) } else { Err(ParseNamespaceError(text)) }
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> Self {
        namespace.0
    }
}

/// Allows lookups with `&str` in maps keyed by namespace.
impl std::borrow::Borrow<str> for Namespace {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The text is not a valid plugin name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid plugin name `{0}`: expected `NAMESPACE/NAME` such as `gymkhana/calculator`, each half with 1 to {MAX_LENGTH} \
     lower-case letters, digits or `-`, not starting or ending with `-`"
)]
pub struct ParseNameError(String);

impl PluginName {
    /// Builds a name from its two halves.
    ///
    /// # Errors
    /// If a half contains other characters, is empty or has more than 64.
    pub fn new(namespace: &str, name: &str) -> Result<Self, ParseNameError> {
        if is_valid_word(namespace) && is_valid_word(name) {
            Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
        } else {
            Err(ParseNameError(format!("{namespace}/{name}")))
        }
    }

    /// The half before the slash, which identifies the publisher.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The half after the slash, which run files and records use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns true if the text can be one half of a plugin name.
pub(crate) fn is_valid_word(text: &str) -> bool {
    (1..=MAX_LENGTH).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for PluginName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| ParseNameError(text.to_owned()))?;
        Self::new(namespace, name)
    }
}

impl TryFrom<String> for PluginName {
    type Error = ParseNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PluginName> for String {
    fn from(name: PluginName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_round_trip() {
        for text in ["gymkhana/calculator", "a/b", "a-1/2--b", &format!("{0}/{0}", "x".repeat(64))] {
            assert_eq!(text.parse::<PluginName>().expect("a valid name").to_string(), text);
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        let long = format!("{}/b", "x".repeat(65));
        for text in ["", "a", "/", "a/", "/b", "a/b/c", "A/b", "a/b_c", "-a/b", "a/b-", "a/ b", "a/é", "../b", &long] {
            let error = text.parse::<PluginName>().expect_err(text);
            assert!(error.to_string().starts_with(&format!("invalid plugin name `{text}`: ")), "{error}");
        }
    }
}
