//! JSON calls between a user's own marks, for models whose format is not in the list.

use serde::{Deserialize, Serialize, Serializer};

use super::json::CallKeys;
use super::marked::{CallLayout, Marks, Shape};

/// Most bytes of a mark or a key.
const LONGEST: usize = 48;

/// A short text in place, so that a format can be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Short {
    bytes: [u8; LONGEST],
    length: u8,
}

impl Short {
    fn of(field: &'static str, text: &str) -> Result<Self, CustomMarksError> {
        let too_long = || CustomMarksError::TooLong { field, most: LONGEST };
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..text.len()).ok_or_else(too_long)?.copy_from_slice(text.as_bytes());
        Ok(Self { bytes, length: u8::try_from(text.len()).map_err(|_| too_long())? })
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.length.into()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// The marks and keys of a format that a run file describes: `{ kind = "json", open = "<x>", close = "</x>",
/// key = "parameters", name = "name" }`.
///
/// `close` may be absent for models that write no closing mark. `key` is the key of the arguments, `arguments` by
/// default; `name` is that of the function's name, `name` by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CustomMarks {
    open: Short,
    close: Short,
    key: Short,
    name: Short,
}

/// The reason why marks cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CustomMarksError {
    /// A mark or key without text.
    #[error("`{0}` of `tool_format` is empty")]
    Empty(&'static str),
    /// A mark or key with whitespace around it.
    #[error("`{0}` of `tool_format` begins or ends with whitespace, which models vary")]
    Whitespace(&'static str),
    /// A mark or key with too many bytes.
    #[error("`{field}` of `tool_format` has more than {most} bytes")]
    TooLong {
        /// The field's name.
        field: &'static str,
        /// Most bytes.
        most: usize,
    },
    /// Two fields with one text.
    #[error("`{0}` and `{1}` of `tool_format` are the same text")]
    Same(&'static str, &'static str),
    /// A mark that JSON begins with.
    #[error("`{0}` of `tool_format` begins or ends like JSON, so that it cannot be told from a call")]
    Json(&'static str),
}

impl CustomMarks {
    /// Marks around a call, the key of its arguments, and the key of its function's name.
    ///
    /// # Errors
    /// [`CustomMarksError`] for texts that are empty, equal, too long or part of JSON.
    pub fn new(open: &str, close: Option<&str>, key: &str, name: &str) -> Result<Self, CustomMarksError> {
        let fields = [("open", Some(open)), ("close", close), ("key", Some(key)), ("name", Some(name))];
        for (field, text) in fields.into_iter().filter_map(|(field, text)| Some((field, text?))) {
            if text.is_empty() {
                return Err(CustomMarksError::Empty(field));
            }
            if text.trim() != text {
                return Err(CustomMarksError::Whitespace(field));
            }
        }
        for (field, mark) in [("open", open), ("close", close.unwrap_or("-"))] {
            if mark.starts_with(['{', '"']) || mark == "[" || mark.ends_with(['[', '{', '"']) {
                return Err(CustomMarksError::Json(field));
            }
        }
        if close == Some(open) {
            return Err(CustomMarksError::Same("open", "close"));
        }
        if key == name {
            return Err(CustomMarksError::Same("key", "name"));
        }
        Ok(Self {
            open: Short::of("open", open)?,
            close: Short::of("close", close.unwrap_or_default())?,
            key: Short::of("key", key)?,
            name: Short::of("name", name)?,
        })
    }

    /// The mark before a call.
    #[must_use]
    pub fn open(&self) -> &str {
        self.open.as_str()
    }

    /// The mark behind a call; `None` for a format without one.
    #[must_use]
    pub fn close(&self) -> Option<&str> {
        Some(self.close.as_str()).filter(|close| !close.is_empty())
    }

    /// The key of the arguments.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// The key of the function's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The marks as the parser of JSON takes them.
    pub(super) fn marks(&self) -> Marks<'_> {
        Marks {
            open: self.open.as_str(),
            close: self.close.as_str(),
            needs_close: self.close().is_some(),
            keys: CallKeys { name: self.name(), arguments: self.key() },
            shape: Shape::Object,
            layout: CallLayout::Each { head: "", tail: "", between: "\n" },
        }
    }
}

/// The only kind of marks so far.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CustomKind {
    Json,
}

/// The table of a run file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CustomFields {
    kind: CustomKind,
    open: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    close: Option<String>,
    #[serde(default = "default_key")]
    key: String,
    #[serde(default = "default_name")]
    name: String,
}

fn default_key() -> String {
    "arguments".to_owned()
}

fn default_name() -> String {
    "name".to_owned()
}

impl TryFrom<CustomFields> for CustomMarks {
    type Error = CustomMarksError;

    fn try_from(fields: CustomFields) -> Result<Self, Self::Error> {
        Self::new(&fields.open, fields.close.as_deref(), &fields.key, &fields.name)
    }
}

impl Serialize for CustomMarks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = str::to_owned;
        let (open, close) = (text(self.open()), self.close().map(text));
        CustomFields { kind: CustomKind::Json, open, close, key: text(self.key()), name: text(self.name()) }
            .serialize(serializer)
    }
}
