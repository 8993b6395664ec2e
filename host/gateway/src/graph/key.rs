//! Keys by which histories are equal: roles, texts and calls by meaning, without ids, spacing and the order of keys.

use gymkhana_chat::Role;
use gymkhana_record::{Function, json_values_at_most};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::dialect::InputMessage;

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistoryKey([u8; 32]);

impl HistoryKey {
    /// The key of an empty history with these functions.
    pub(crate) fn of_functions(functions: &[Function]) -> Self {
        let mut texts = TextsHash::default();
        for function in functions {
            texts.add(&function.name).add(&function.description).add(&canonical(&function.parameters));
        }
        texts.key()
    }

    /// The key of one message. It leaves out reasoning, which programs drop, and ids of calls. Texts are
    /// compared without the white space around them, because programs strip it.
    pub(crate) fn of_message(message: &InputMessage) -> Self {
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let mut texts = TextsHash::default();
        texts.add(role).add(message.text.trim());
        for call in &message.calls {
            texts.add(&call.name).add(&canonical(&call.arguments));
        }
        texts.key()
    }

    /// The key of this history followed by a message.
    pub(crate) fn then(self, message: Self) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(message.0);
        Self(hash.finalize().into())
    }
}

/// The hash of a list of texts, each with its length before it.
#[derive(Default)]
struct TextsHash(Sha256);

impl TextsHash {
    fn add(&mut self, text: &str) -> &mut Self {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
        self
    }

    fn key(self) -> HistoryKey {
        HistoryKey(self.0.finalize().into())
    }
}

/// Most values of a JSON text that is compared by meaning.
const MAX_VALUES: usize = 1 << 16;

/// JSON with sorted keys and without spacing; another text, or one of very many values, without the white space around it.
pub(crate) fn canonical(text: &str) -> String {
    let parsed = if json_values_at_most(text.as_bytes()) > MAX_VALUES { None } else { serde_json::from_str(text).ok() };
    parsed.map_or_else(|| text.trim().to_owned(), |value| sorted(value).to_string())
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
