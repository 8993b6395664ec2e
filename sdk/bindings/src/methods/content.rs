//! Short constructors and accessors for content and values.

use crate::{Content, NamedValue, Part, Value};

/// Content of one text part.
#[must_use]
pub fn text(words: impl Into<String>) -> Content {
    vec![Part::Text(words.into())]
}

/// Concatenated text parts of a content; other parts are skipped.
#[must_use]
pub fn text_of(content: &[Part]) -> String {
    let words = content.iter().map(|part| match part {
        Part::Text(words) => words.as_str(),
        Part::Image(_) | Part::Audio(_) | Part::Video(_) | Part::Other(_) => "",
    });
    words.collect()
}

/// Names, separated by commas.
///
/// Every crate that joins texts has a copy of the code in each plugin; this one is for the SDK as well.
#[must_use]
pub fn listed(names: &[&str]) -> String {
    names.join(", ")
}

/// Named value, such as `named("success", true)`.
#[must_use]
pub fn named(name: impl Into<String>, value: impl Into<Value>) -> NamedValue {
    NamedValue { name: name.into(), value: value.into() }
}

impl Value {
    /// Human-readable form of a value; bytes are shown by their count.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Integer(integer) => integer.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(words) | Self::Other(words) => words.clone(),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i32> for Value {
    fn from(integer: i32) -> Self {
        Self::Integer(integer.into())
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(words: &str) -> Self {
        Self::Text(words.to_owned())
    }
}

impl From<String> for Value {
    fn from(words: String) -> Self {
        Self::Text(words)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}
