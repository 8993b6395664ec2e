//! Plugin names: `namespace/name`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 64;

/// A plugin's name, such as `gymkhana/calculator`. Both halves are 1 to 64 lower-case letters, digits and `-`, without
/// `-` at an end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginName {
    namespace: String,
    name: String,
}

/// The half before the slash by itself: whoever holds one of its keys may publish below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

/// A text is no namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no namespace; one is 1 to {MAX_LENGTH} lower-case letters, digits and `-`, with no `-` at an end")]
pub struct ParseNamespaceError(String);

impl Namespace {
    /// Its text.
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
        if is_word(&text) { Ok(Self(text)) } else { Err(ParseNamespaceError(text)) }
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> Self {
        namespace.0
    }
}

/// So that maps with namespaces for keys can be asked with a plugin's.
impl std::borrow::Borrow<str> for Namespace {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A text is no plugin name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no plugin name; one looks like `gymkhana/calculator`: two words of 1 to {MAX_LENGTH} lower-case letters, \
     digits and `-`, with no `-` at an end"
)]
pub struct ParseNameError(String);

impl PluginName {
    /// A name of two checked halves.
    ///
    /// # Errors
    /// If a half holds other characters, is empty or longer than 64.
    pub fn new(namespace: &str, name: &str) -> Result<Self, ParseNameError> {
        if is_word(namespace) && is_word(name) {
            Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
        } else {
            Err(ParseNameError(format!("{namespace}/{name}")))
        }
    }

    /// The half before the slash: who publishes the plugin.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The half after the slash: what run files and records call the plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether a text can be one half of a name.
pub(crate) fn is_word(text: &str) -> bool {
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
    fn good_names_survive_their_text() {
        for text in ["gymkhana/calculator", "a/b", "a-1/2--b", &format!("{0}/{0}", "x".repeat(64))] {
            assert_eq!(text.parse::<PluginName>().expect("a good name").to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("{}/b", "x".repeat(65));
        for text in ["", "a", "/", "a/", "/b", "a/b/c", "A/b", "a/b_c", "-a/b", "a/b-", "a/ b", "a/é", "../b", &long] {
            let error = text.parse::<PluginName>().expect_err(text);
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }
}
