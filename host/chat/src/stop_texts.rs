//! Texts that end a reply, wherever they stand in its tokens.

use std::sync::Arc;

use gymkhana_policy::StopCondition;
use tokenizers::Tokenizer;

use crate::encoder::decode_with;
use crate::error::ChatError;
use crate::format::ChatFormat;

/// Tokens decoded beyond a text's length in bytes, because some tokens have no text by themselves.
const MARGIN: usize = 8;

/// Texts that end a reply. A reply ends with the token that completes one of them; the text may begin in an earlier
/// token and may be a part of a longer one.
#[derive(Debug)]
pub struct StopTexts {
    texts: Vec<String>,
    /// Number of last tokens that can hold a text: each token has at least one byte.
    window: usize,
    tokenizer: Arc<Tokenizer>,
}

impl StopTexts {
    /// Stop texts for a model's tokens. Empty texts are ignored, because every reply holds them; `None` if all are
    /// empty.
    #[must_use]
    pub fn new(texts: &[String], chat: &ChatFormat) -> Option<Self> {
        let texts: Vec<String> = texts.iter().filter(|text| !text.is_empty()).cloned().collect();
        let longest = texts.iter().map(String::len).max()?;
        Some(Self { texts, window: longest + MARGIN, tokenizer: chat.decoder() })
    }

    /// Whether the decoded tail of a reply holds a stop text.
    ///
    /// A tail that the tokenizer cannot decode does not stop the reply: sampling goes on to a stop token or the length
    /// limit, and [`ChatFormat::decode_reply`] reports the error for the whole reply.
    fn holds_text(&self, tail: Result<String, ChatError>) -> bool {
        match tail {
            Ok(tail) => self.texts.iter().any(|text| tail.contains(text.as_str())),
            Err(_) => false,
        }
    }
}

impl StopCondition for StopTexts {
    fn texts(&self) -> &[String] {
        &self.texts
    }

    fn is_met(&self, sampled: &[u32]) -> bool {
        let tail = &sampled[sampled.len().saturating_sub(self.window)..];
        self.holds_text(decode_with(&self.tokenizer, tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::chat;

    #[test]
    fn an_undecodable_tail_holds_no_text() {
        let texts = StopTexts::new(&["end".to_owned()], &chat()).unwrap();
        assert!(texts.holds_text(Ok("the end.".to_owned())));
        assert!(!texts.holds_text(Ok("the en".to_owned())));
        assert!(!texts.holds_text(Err(ChatError::Decode("damaged".to_owned()))));
    }
}
