//! The thoughts of a reply and the message behind them, told apart by the marks of the model.
//!
//! ```text
//! reply   = thoughts message
//! thoughts = { spaces [RESUME] OPEN text CLOSE }     the first OPEN may stand in the prompt
//!          | { … } spaces [RESUME] OPEN text         a reply that was cut while thinking
//! message = text | spaces [RESUME] MESSAGE_OPEN text [MESSAGE_CLOSE]
//! ```
//!
//! Thoughts stand at the beginning of a reply. A mark behind the beginning of the message is a part of the message, so
//! that a text about marks, or a call with a mark among its arguments, stays whole.

mod marks;
mod reply;

pub use marks::{MarksError, ThoughtMarks};
pub use reply::ReplyParts;

/// Whether the prompt before a reply has opened a thought that the reply continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The prompt ends inside of a thought.
    Yes,
    /// The prompt has opened no thought.
    No,
    /// The prompt is unknown: a closing mark without an opening one ends a thought that the prompt had opened.
    Unknown,
}

/// A reply whose thoughts are apart from its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitReply<'t> {
    /// The text of the thoughts without their marks and the white space around them. None for a reply without thoughts;
    /// empty for marks without a text.
    pub thoughts: Option<&'t str>,
    /// Number of bytes of the reply up to the end of its thoughts, their marks included.
    pub bytes: usize,
    /// Whether the reply ends inside of a thought.
    pub unfinished: bool,
    /// The message and its calls. The white space between thoughts and message is left out.
    pub message: &'t str,
}

impl ThoughtMarks {
    /// Splits the text of a reply.
    ///
    /// Of several thoughts in a row, `thoughts` is the text from the beginning of the first to the end of the last one.
    #[must_use]
    pub fn split<'t>(&self, reply: &'t str, begun: Begun) -> SplitReply<'t> {
        let mut thoughts: Option<(usize, usize)> = None;
        let mut at = 0;
        let mut inside = match begun {
            Begun::Yes => true,
            Begun::No => false,
            Begun::Unknown => self.opening(reply).is_none() && reply.contains(self.close()),
        };
        let mut unfinished = false;
        while !unfinished {
            // A model may repeat the mark that the prompt has written.
            let opened = self.opening(&reply[at..]);
            if !inside && opened.is_none() {
                break;
            }
            let start = at + opened.unwrap_or(0);
            let end = reply[start..].find(self.close()).map(|place| start + place);
            let begin = thoughts.map_or(start, |(begin, _)| begin);
            thoughts = Some((begin, end.unwrap_or(reply.len())));
            at = end.map_or(reply.len(), |end| end + self.close().len());
            inside = false;
            unfinished = end.is_none();
        }
        let text = thoughts.map(|(start, end)| reply[start..end].trim());
        let rest = &reply[at..];
        SplitReply { thoughts: text, bytes: at, unfinished, message: self.message(rest, text.is_some()) }
    }

    /// Splits a reply of an unknown model: by the known marks with which it begins, else by `<think>` and `</think>`.
    #[must_use]
    pub fn split_any(reply: &str) -> SplitReply<'_> {
        let marks = Self::known().find(|marks| marks.opening(reply).is_some()).unwrap_or_default();
        marks.split(reply, Begun::Unknown)
    }

    /// Number of bytes up to the end of the opening mark, if the text begins with one.
    fn opening(&self, text: &str) -> Option<usize> {
        let begun = self.resumed(text);
        let behind = begun.strip_prefix(self.open())?;
        Some(text.len() - behind.len())
    }

    /// The text without white space and the mark of a further part at its beginning.
    fn resumed<'t>(&self, text: &'t str) -> &'t str {
        let text = text.trim_start();
        self.resume().and_then(|mark| text.strip_prefix(mark)).unwrap_or(text)
    }

    /// The message without its own marks.
    fn message<'t>(&self, rest: &'t str, thought: bool) -> &'t str {
        let plain = if thought { rest.trim_start() } else { rest };
        let Some((open, closes)) = self.message_marks() else { return plain };
        let Some(inner) = self.resumed(rest).strip_prefix(open) else { return plain };
        closes.iter().find_map(|close| inner.split_once(close)).map_or(inner, |(message, _)| message)
    }

    /// Whether a prompt ends inside of a thought. `tail` is what the template has written behind the last message.
    #[must_use]
    pub fn begun(&self, tail: &str) -> Begun {
        let last = |mark: &str| tail.rfind(mark);
        let opened = last(self.open());
        if opened.is_some() && opened > last(self.close()) { Begun::Yes } else { Begun::No }
    }
}

#[cfg(test)]
mod tests;
