//! Messages, calls and options: the host's form of the types in the WIT contract.

use serde::{Deserialize, Serialize};

/// Bytes with a mime type, such as a PNG image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The mime type, such as `image/png`.
    pub mime: String,
    /// The bytes as the plugin gave them.
    #[serde(with = "crate::bytes")]
    pub bytes: Vec<u8>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Plain text.
    Text(String),
    /// An image.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A video.
    Video(Media),
    /// Any other kind of media, named by its mime type.
    Other(Media),
}

/// The parts of a message in reading order.
pub type Content = Vec<Part>;

/// The text of a message for people and text-only policies. Media are written as `[mime, n bytes]`.
#[must_use]
pub fn text_of(content: &[Part]) -> String {
    let mut text = String::new();
    for part in content {
        match part {
            Part::Text(words) => text.push_str(words),
            Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::Other(media) => {
                text.push_str(&format!("[{}, {} bytes]", media.mime, media.bytes.len()));
            }
        }
    }
    text
}

/// A typed value of an option or an extra.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any finite number.
    Number(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(#[serde(with = "crate::bytes")] Vec<u8>),
    /// Any other value, as JSON text.
    Other(String),
}

impl Value {
    /// The value as a number: 0 or 1 for flags; none for text, bytes and other values.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Flag(flag) => Some(f64::from(u8::from(*flag))),
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::Bytes(_) | Self::Other(_) => None,
        }
    }
}

/// A value with its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// A function that a policy may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The name, unique among the functions of one seat.
    pub name: String,
    /// Description for the policy, of one or two sentences.
    pub description: String,
    /// JSON Schema of the arguments object, as JSON text.
    pub parameters: String,
    /// The cost of one call, in the author's unit.
    pub cost: f64,
}

/// A call of a function, as the policy wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The id that the host gives the call, unique in the episode.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// The arguments: JSON text of an object.
    pub arguments: String,
}

/// A call as the policy wrote it, before the host gives it an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenCall {
    /// A name and an object of arguments.
    Sound {
        /// The function's name.
        name: String,
        /// JSON text of an object.
        arguments: String,
    },
    /// Text in the position of a call that cannot be read as one.
    Malformed {
        /// The text, trimmed.
        text: String,
        /// The reason, in words for the agent.
        reason: String,
    },
}

impl WrittenCall {
    /// A malformed call of this text, which is trimmed.
    #[must_use]
    pub fn malformed(text: &str, reason: impl Into<String>) -> Self {
        Self::Malformed { text: text.trim().to_owned(), reason: reason.into() }
    }
}

/// The task of an episode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskRef {
    /// The split's name, such as `train` or `test`.
    pub split: String,
    /// The position in the split, from 0.
    pub index: u64,
}

impl std::fmt::Display for TaskRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.split, self.index)
    }
}
