//! Keys by which histories are equal: roles, texts and calls by meaning, without ids, spacing and the order of keys.

use gymkhana_record::Function;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::dialect::InputMessage;

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of an empty history with these functions.
    pub(crate) fn of_functions(functions: &[Function]) -> Self {
        let fields = functions.iter().flat_map(|function| {
            [function.name.clone(), function.description.clone(), canonical(&function.parameters)]
        });
        Self::of_texts(fields)
    }

    /// The key of one message. It leaves out reasoning, which programs drop, and ids of calls. Texts are
    /// compared without the white space around them, because programs strip it.
    pub(crate) fn of_message(message: &InputMessage) -> Self {
        let role = format!("{:?}", message.role);
        let calls = message.calls.iter().flat_map(|call| [call.name.clone(), canonical(&call.arguments)]);
        Self::of_texts([role, message.text.trim().to_owned()].into_iter().chain(calls))
    }

    /// The key of this history followed by a message.
    pub(crate) fn then(self, message: Self) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(message.0);
        Self(hash.finalize().into())
    }

    fn of_texts(texts: impl IntoIterator<Item = String>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Self(hash.finalize().into())
    }
}

/// JSON with sorted keys and without spacing; another text without the white space around it.
fn canonical(text: &str) -> String {
    serde_json::from_str(text).map_or_else(|_| text.trim().to_owned(), |value| sorted(value).to_string())
}

fn sorted(value: Json) -> Json {
    match value {
        Json::Object(object) => {
            let mut entries: Vec<(String, Json)> =
                object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            Json::Object(entries.into_iter().collect())
        }
        Json::Array(values) => Json::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}
