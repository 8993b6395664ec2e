//! Texts that end a reply wherever they stand in its tokens.

use gymkhana_policy::StopCondition;
use tokenizers::Tokenizer;

use crate::format::ChatFormat;

/// Tokens beyond a text's bytes that are looked at: some tokens are no text by themselves.
const MARGIN: usize = 8;

/// Texts that end a reply. A reply ends with the token that completes one of them, of which the text may be a part, begin
/// in another token, or both.
#[derive(Debug)]
pub struct StopTexts {
    texts: Vec<String>,
    /// How many of the last tokens can hold a text: each has a byte at least.
    window: usize,
    tokenizer: Tokenizer,
}

impl StopTexts {
    /// These texts in a model's tokens; none where there is no text. Empty texts are left out, as every reply holds them.
    #[must_use]
    pub fn new(texts: &[String], chat: &ChatFormat) -> Option<Self> {
        let texts: Vec<String> = texts.iter().filter(|text| !text.is_empty()).cloned().collect();
        let longest = texts.iter().map(String::len).max()?;
        Some(Self { texts, window: longest + MARGIN, tokenizer: chat.decoder() })
    }
}

impl StopCondition for StopTexts {
    fn texts(&self) -> &[String] {
        &self.texts
    }

    fn is_met(&self, sampled: &[u32]) -> bool {
        let tail = &sampled[sampled.len().saturating_sub(self.window)..];
        // A token that the tokenizer does not know has no text.
        let said = self.tokenizer.decode(tail, false).unwrap_or_default();
        self.texts.iter().any(|text| said.contains(text.as_str()))
    }
}
