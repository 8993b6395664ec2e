//! Server-sent events.

use serde_json::Value as Json;

/// A comment that keeps a stream alive. Readers of events ignore it at any position, before the first event too.
pub const KEEP_ALIVE: &str = ": waiting for the policy\n\n";

/// Characters of a reply in one event.
const PIECE: usize = 32;

/// One event, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent(String);

impl SseEvent {
    /// An event without a name.
    pub(crate) fn unnamed(data: &Json) -> Self {
        Self(format!("data: {data}\n\n"))
    }

    /// An event that has the name in its `type`.
    pub(crate) fn named(data: &Json) -> Self {
        let name = data["type"].as_str().unwrap_or("message");
        Self(format!("event: {name}\ndata: {data}\n\n"))
    }

    /// OpenAI's mark of the end.
    pub(crate) fn done() -> Self {
        Self("data: [DONE]\n\n".to_owned())
    }

    /// The bytes.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A text in pieces of whole characters. Empty for an empty text.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = text.char_indices().step_by(PIECE).map(|(at, _)| at).collect();
    starts.push(text.len());
    starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}
