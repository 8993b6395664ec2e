//! Replies of the policy in their parts: thoughts, message and calls, and the limit of thoughts.

use std::sync::Arc;

use gymkhana_policy::StopCondition;
use gymkhana_record::{Function, WrittenCall};
use tokenizers::Tokenizer;

use super::{Begun, ThoughtMarks};
use crate::encoder::decode_with;
use crate::error::ChatError;
use crate::format::ChatFormat;

/// A reply of the policy in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyParts {
    /// The thoughts without their marks; none for a reply without thoughts.
    pub thoughts: Option<String>,
    /// Number of bytes of the reply up to the end of its thoughts.
    pub thought_bytes: usize,
    /// The text outside the thoughts and calls.
    pub message: String,
    /// The calls in their order.
    pub calls: Vec<WrittenCall>,
}

impl ChatFormat {
    /// Splits a reply's text into its thoughts, its message and its calls; see [`ThoughtMarks::split`] and
    /// [`crate::ToolFormat::parse`].
    #[must_use]
    pub fn parse_reply(&self, text: &str, functions: &[Function], begun: Begun) -> ReplyParts {
        let (thoughts, thought_bytes, rest) = self.split_thoughts(text, begun);
        let parsed = self.tool_format().parse(rest, functions);
        let thoughts = thoughts.map(str::to_owned);
        ReplyParts { thoughts, thought_bytes, message: parsed.message, calls: parsed.calls }
    }

    /// The thoughts of a reply, the number of bytes up to their end, and the text behind them.
    #[must_use]
    pub fn split_thoughts<'t>(&self, text: &'t str, begun: Begun) -> (Option<&'t str>, usize, &'t str) {
        let Some(marks) = self.thoughts() else { return (None, 0, text) };
        let split = marks.split(text, begun);
        (split.thoughts, split.bytes, split.message)
    }

    /// Number of the first tokens of a reply whose text has this many bytes.
    ///
    /// # Errors
    /// [`ChatError::Decode`] if the tokenizer's decoder fails.
    pub fn tokens_of_bytes(&self, tokens: &[u32], bytes: usize) -> Result<usize, ChatError> {
        let (mut low, mut high) = (0, tokens.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.decode(&tokens[..middle])?.len() < bytes {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Number of a reply's first tokens that are kept if its thoughts may have `limit` tokens: all, or `limit` for a
    /// reply that is still thinking then.
    ///
    /// # Errors
    /// [`ChatError::Decode`] if the tokenizer's decoder fails.
    pub fn within_thoughts(&self, tokens: &[u32], limit: usize, begun: Begun) -> Result<usize, ChatError> {
        let Some(first) = tokens.get(..limit) else { return Ok(tokens.len()) };
        let Some(marks) = self.thoughts() else { return Ok(tokens.len()) };
        let thinks = marks.split(&self.decode(first)?, begun).unfinished;
        Ok(if thinks { limit } else { tokens.len() })
    }

    /// A stop condition that ends a reply which still thinks after `limit` tokens, and that ends replies as `other` does.
    /// `other` alone if thoughts are not split.
    #[must_use]
    pub fn thought_limit(
        &self,
        limit: usize,
        begun: Begun,
        other: Option<Arc<dyn StopCondition>>,
    ) -> Option<Arc<dyn StopCondition>> {
        let Some(marks) = self.thoughts().cloned() else { return other };
        Some(Arc::new(ThoughtLimit { limit, begun, marks, tokenizer: self.decoder(), other }))
    }
}

/// The limit of the thoughts of one reply.
#[derive(Debug)]
struct ThoughtLimit {
    /// Tokens.
    limit: usize,
    begun: Begun,
    marks: ThoughtMarks,
    tokenizer: Arc<Tokenizer>,
    other: Option<Arc<dyn StopCondition>>,
}

impl StopCondition for ThoughtLimit {
    fn texts(&self) -> &[String] {
        self.other.as_ref().map_or(&[], |other| other.texts())
    }

    fn is_met(&self, sampled: &[u32]) -> bool {
        let thinks = || {
            let text = decode_with(&self.tokenizer, sampled);
            text.is_ok_and(|text| self.marks.split(&text, self.begun).unfinished)
        };
        self.other.as_ref().is_some_and(|other| other.is_met(sampled)) || sampled.len() == self.limit && thinks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplyPiece;
    use crate::format::tests::chat;

    fn tokens(chat: &ChatFormat, text: &str) -> Vec<u32> {
        let mut tokens = chat.encode_reply(&[ReplyPiece::Plain(text)]).unwrap();
        tokens.pop();
        tokens
    }

    #[test]
    fn tokens_of_thoughts_are_counted() {
        let chat = chat();
        for text in ["<think>one two</think> three", "<think>\u{e4}\u{1f600}</think>x", "none"] {
            let reply = tokens(&chat, text);
            let bytes = chat.parse_reply(text, &[], Begun::No).thought_bytes;
            let count = chat.tokens_of_bytes(&reply, bytes).unwrap();
            assert!(chat.decode(&reply[..count]).unwrap().len() >= bytes, "{text}");
            assert!(count == 0 || chat.decode(&reply[..count - 1]).unwrap().len() < bytes, "{text}");
        }
    }

    #[test]
    fn a_reply_that_thinks_too_long_is_cut() {
        let chat = chat();
        let long = tokens(&chat, "<think>one two three four five six");
        let short = tokens(&chat, "<think>one</think> two three four five six");
        let plain = tokens(&chat, "one two three four five six seven eight nine");
        let limit = tokens(&chat, "<think>one</think>").len();
        assert_eq!(chat.within_thoughts(&long, limit, Begun::No).unwrap(), limit);
        assert_eq!(chat.within_thoughts(&short, limit, Begun::No).unwrap(), short.len());
        assert_eq!(chat.within_thoughts(&plain, limit, Begun::No).unwrap(), plain.len());
        assert_eq!(chat.within_thoughts(&plain, 4, Begun::Yes).unwrap(), 4);
        assert_eq!(chat.within_thoughts(&long, long.len() + 1, Begun::No).unwrap(), long.len());
        let condition = chat.thought_limit(limit, Begun::No, None).unwrap();
        assert!(condition.is_met(&long[..limit]) && !condition.is_met(&long[..limit - 1]));
        assert!(!condition.is_met(&short[..limit]) && !condition.is_met(&plain[..limit]));
        let chat = chat.with_thoughts(None);
        assert_eq!(chat.within_thoughts(&long, limit, Begun::No).unwrap(), long.len());
        assert!(chat.thought_limit(limit, Begun::No, None).is_none());
    }
}
