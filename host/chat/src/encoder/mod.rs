//! Tokens of texts of which a part comes from outside.
//!
//! The tokens equal those of the whole text under the model's tokenizer, except that no part from outside becomes a mark:
//! an added token that is special or has a sign other than letters, digits and white space. A mark that would lie in
//! such a part, even with one character, is tokenised as plain text.

mod marks;
mod sections;

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value as Json;
use tokenizers::{
    Model, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Token, Tokenizer,
};

use crate::byte_table::TokenBytes;
use crate::error::ChatError;
use crate::memo::Memo;
use crate::tokenizer_limits;
use marks::Marks;
use sections::{TextSection, sections};

/// A character that no text of the conversation holds; it stands inside of forged marks until they are tokenised.
const BREAKS: std::ops::RangeInclusive<char> = '\u{F8A0}'..='\u{F8EF}';

/// The tokenizer of a model.
pub(crate) struct Encoder {
    /// With added tokens.
    tokenizer: Arc<Tokenizer>,
    marks: Marks,
    /// Bytes of each token, for tokenizers that a table can decode.
    token_bytes: Option<TokenBytes>,
    /// Most bytes of a text that one token stands for; none if they have no bound.
    longest: Option<usize>,
    /// Tokens of texts that many conversations have between two marks.
    memo: Memo<String, Arc<[u32]>>,
}

/// A text with the byte ranges that come from outside, in ascending order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sourced<'t> {
    text: &'t str,
    outside: &'t [Range<usize>],
    /// Number of bytes at the beginning that the template and the run wrote: many conversations begin with them.
    shared: usize,
}

impl<'t> Sourced<'t> {
    pub(crate) fn new(text: &'t str, outside: &'t [Range<usize>]) -> Self {
        Self { text, outside, shared: 0 }
    }

    /// The same text, of which many conversations have this number of bytes at the beginning.
    pub(crate) fn with_shared(self, shared: usize) -> Self {
        Self { shared, ..self }
    }

    /// Whether a range has a byte from outside.
    fn is_touched(&self, range: &Range<usize>) -> bool {
        let next = self.outside.partition_point(|part| part.end <= range.start);
        self.outside.get(next).is_some_and(|part| part.start < range.end)
    }
}

/// Tokens of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub tokens: Vec<u32>,
    /// Offset of the first byte of each token, if it was wanted.
    pub starts: Vec<usize>,
    /// Number of marks in text from outside, which are plain text.
    pub disabled: u32,
}

impl Encoder {
    /// The tokenizer of the text of `tokenizer.json`.
    pub(crate) fn new(file: &Json) -> Result<Self, String> {
        tokenizer_limits::check(file)?;
        let tokenizer = Tokenizer::from_bytes(file.to_string()).map_err(|error| error.to_string())?;
        let marks = Marks::of(&tokenizer, file)?;
        let token_bytes = TokenBytes::of(&tokenizer, file);
        let longest = tokenizer.get_vocab(true).keys().map(String::len).max();
        let longest = longest.filter(|_| bounds_texts(file)).map(|bytes| bytes.saturating_mul(SHORTENING));
        Ok(Self { tokenizer: Arc::new(tokenizer), marks, token_bytes, longest, memo: Memo::default() })
    }

    /// Most bytes of a text that this number of tokens stands for; none if they have no bound.
    pub(crate) fn most_bytes(&self, tokens: usize) -> Option<usize> {
        self.longest.map(|longest| tokens.saturating_mul(longest))
    }

    /// The tokenizer with its added tokens.
    pub(crate) fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Whether a token is a mark.
    pub(crate) fn is_mark(&self, id: u32) -> bool {
        self.marks.contains(id)
    }

    /// The id of the mark with this text.
    pub(crate) fn mark(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text).filter(|id| self.is_mark(*id))
    }

    /// Texts of all marks.
    pub(crate) fn mark_texts(&self) -> &[String] {
        &self.marks.texts
    }

    /// Tokens of a text.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] for a text that the tokenizer cannot encode, [`ChatError::Forged`] if plain text became a
    /// mark.
    pub(crate) fn tokens(&self, sourced: Sourced<'_>) -> Result<Vec<u32>, ChatError> {
        Ok(self.encode(sourced, false)?.tokens)
    }

    /// Tokens of a text, with the places of their first bytes if they are wanted.
    ///
    /// # Errors
    /// As [`Encoder::tokens`].
    pub(crate) fn encode(&self, sourced: Sourced<'_>, places: bool) -> Result<Placed, ChatError> {
        let Some(finder) = &self.marks.finder else { return self.whole(sourced, places) };
        let (sections, disabled) = sections(finder, sourced);
        let mut placed = Placed { disabled, ..Placed::default() };
        for section in sections {
            match section {
                TextSection::Mark { number, start } => {
                    placed.tokens.push(self.marks.numbers[number]);
                    if places {
                        placed.starts.push(start);
                    }
                }
                TextSection::Text { text, start, .. } if places => {
                    let pieces = self.split(PreTokenizedString::from(text), true)?;
                    self.place(self.tokenized(pieces)?, start, &mut placed)?;
                }
                TextSection::Text { text, is_shared: true, .. } => {
                    let known = self.memo.get(text, || Ok::<_, ChatError>(self.plain(text)?.into()))?;
                    placed.tokens.extend_from_slice(&known);
                }
                TextSection::Text { text, is_shared: false, .. } => placed.tokens.extend(self.plain(text)?),
            }
        }
        Ok(placed)
    }

    /// Tokens of a text that holds no mark.
    fn plain(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let pieces = self.split(PreTokenizedString::from(text), true)?;
        let model = self.tokenizer.get_model();
        let mut ids = Vec::with_capacity(text.len() / 3 + 8);
        for (piece, ..) in pieces.get_splits(OffsetReferential::Original, OffsetType::None) {
            let tokens = model.tokenize(piece).map_err(failed)?;
            if let Some(mark) = self.forged_among(&tokens) {
                return Err(ChatError::Forged(mark));
            }
            ids.extend(tokens.iter().map(|token| token.id));
        }
        Ok(ids)
    }

    /// Tokens of a text through the tokenizer's own search for added tokens.
    fn whole(&self, sourced: Sourced<'_>, places: bool) -> Result<Placed, ChatError> {
        let broken = self.broken(sourced)?;
        let (text, mark) = broken.as_ref().map_or((sourced.text, None), |(text, mark)| (text.as_str(), Some(*mark)));
        let vocabulary = self.tokenizer.get_added_vocabulary();
        let mut pieces = vocabulary.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        if let Some(mark) = mark {
            pieces.normalize(|piece| piece.replace(mark, "")).map_err(failed)?;
        }
        let pieces = self.tokenized(self.split(pieces, false)?)?;
        let disabled = mark.map_or(0, |mark| text.matches(mark).count());
        let mut placed = Placed { disabled: u32::try_from(disabled).unwrap_or(u32::MAX), ..Placed::default() };
        if !places {
            let splits = pieces.get_splits(OffsetReferential::Original, OffsetType::None);
            let tokens = splits.into_iter().filter_map(|(_, _, tokens)| tokens.as_ref()).flatten();
            placed.tokens = tokens.map(|token| token.id).collect();
            return Ok(placed);
        }
        self.place(pieces, 0, &mut placed)?;
        if let Some(mark) = mark {
            let removed: Vec<usize> = text.match_indices(mark).map(|(place, _)| place).collect();
            for start in &mut placed.starts {
                *start -= removed.partition_point(|place| place < start) * mark.len_utf8();
            }
        }
        Ok(placed)
    }

    /// The text with a character inside of each forged mark, if there are any, and the character.
    fn broken(&self, sourced: Sourced<'_>) -> Result<Option<(String, char)>, ChatError> {
        let mut broken: Option<(String, char)> = None;
        let mut outside = sourced.outside.to_vec();
        // Each round breaks all forged marks that the tokenizer finds; a broken one can reveal a shorter one.
        loop {
            let text = broken.as_ref().map_or(sourced.text, |(text, _)| text.as_str());
            let places = self.forged(Sourced::new(text, &outside));
            if places.is_empty() {
                return Ok(broken);
            }
            let mark = match &broken {
                Some((_, mark)) => *mark,
                None => BREAKS.clone().find(|mark| !text.contains(*mark)).ok_or_else(|| {
                    ChatError::Tokenize("it holds all private characters that the host uses".to_owned())
                })?,
            };
            let mut next = String::with_capacity(text.len() + 4 * places.len());
            let mut last = 0;
            for place in &places {
                next.push_str(&text[last..*place]);
                next.push(mark);
                last = *place;
            }
            next.push_str(&text[last..]);
            let moved = |at: usize| at + places.partition_point(|place| *place < at) * mark.len_utf8();
            outside = outside.iter().map(|part| moved(part.start)..moved(part.end)).collect();
            broken = Some((next, mark));
        }
    }

    /// Places inside of marks that the tokenizer finds in text from outside.
    fn forged(&self, sourced: Sourced<'_>) -> Vec<usize> {
        let vocabulary = self.tokenizer.get_added_vocabulary();
        let pieces = vocabulary.extract_and_normalize(self.tokenizer.get_normalizer(), sourced.text);
        let splits = pieces.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let found = splits.into_iter().filter_map(|(_, (start, end), tokens)| {
            let id = tokens.as_ref()?.first()?.id;
            // A token may take the white space around it.
            let taken = sourced.text.get(start..end)?;
            let content = start + (taken.len() - taken.trim_start().len())..start + taken.trim_end().len();
            let first = sourced.text.get(content.clone())?.chars().next()?;
            (self.is_mark(id) && sourced.is_touched(&content)).then_some(content.start + first.len_utf8())
        });
        found.collect()
    }

    /// Normalises unless that is done, and splits into the pieces that the model tokenises.
    fn split(&self, mut pieces: PreTokenizedString, normalise: bool) -> Result<PreTokenizedString, ChatError> {
        if let Some(normalizer) = self.tokenizer.get_normalizer().filter(|_| normalise) {
            pieces.normalize(|piece| normalizer.normalize(piece)).map_err(failed)?;
        }
        if let Some(splitter) = self.tokenizer.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut pieces).map_err(failed)?;
        }
        Ok(pieces)
    }

    /// Tokenises the pieces of a text.
    fn tokenized(&self, mut pieces: PreTokenizedString) -> Result<PreTokenizedString, ChatError> {
        let model = self.tokenizer.get_model();
        let forged = std::cell::Cell::new(None);
        let tokenize = |piece: &tokenizers::NormalizedString| {
            let tokens = model.tokenize(piece.get())?;
            if let Some(mark) = self.forged_among(&tokens) {
                forged.set(Some(mark));
            }
            Ok(tokens)
        };
        pieces.tokenize(tokenize).map_err(failed)?;
        forged.get().map_or(Ok(pieces), |mark| Err(ChatError::Forged(mark)))
    }

    /// A mark that the model made of plain text.
    fn forged_among(&self, tokens: &[Token]) -> Option<u32> {
        let mut ids = tokens.iter().map(|token| token.id);
        ids.find(|id| self.is_mark(*id) && self.marks.unknown != Some(*id))
    }

    fn place(&self, pieces: PreTokenizedString, start: usize, placed: &mut Placed) -> Result<(), ChatError> {
        let encoding = pieces.into_encoding(None, 0, OffsetType::Byte).map_err(failed)?;
        placed.tokens.extend_from_slice(encoding.get_ids());
        placed.starts.extend(encoding.get_offsets().iter().map(|(begin, _)| start + begin));
        Ok(())
    }

    /// The text of any tokens, marks included. Ids outside the vocabulary have no text.
    ///
    /// # Errors
    /// [`ChatError::Decode`] if the tokenizer's decoder fails.
    pub(crate) fn decode(&self, tokens: &[u32]) -> Result<String, ChatError> {
        match &self.token_bytes {
            Some(token_bytes) => Ok(token_bytes.text(tokens)),
            None => decode_with(&self.tokenizer, tokens),
        }
    }
}

/// Factor by which Unicode's normal forms shorten a text at most.
const SHORTENING: usize = 4;

/// Whether the length of a text bounds its number of tokens: no token stands for unknown text of any length, and no
/// normaliser removes text.
fn bounds_texts(file: &Json) -> bool {
    fn keeps(normalizer: &Json) -> bool {
        match normalizer["type"].as_str() {
            None | Some("NFC" | "NFD" | "NFKC" | "NFKD" | "Prepend" | "ByteLevel") => true,
            Some("Sequence") => normalizer["normalizers"].as_array().is_some_and(|parts| parts.iter().all(keeps)),
            Some("Replace") => {
                let (pattern, content) = (normalizer["pattern"]["String"].as_str(), normalizer["content"].as_str());
                pattern.zip(content).is_some_and(|(pattern, content)| pattern.len() <= content.len())
            }
            Some(_) => false,
        }
    }
    let model = &file["model"];
    let knows_all = model["byte_fallback"] == true || model["unk_token"].is_null() && model["unk_id"].is_null();
    knows_all && keeps(&file["normalizer"])
}

/// The text of tokens, marks included.
pub(crate) fn decode_with(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String, ChatError> {
    tokenizer.decode(tokens, false).map_err(|error| ChatError::Decode(error.to_string()))
}

#[allow(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
fn failed(error: tokenizers::Error) -> ChatError {
    ChatError::Tokenize(error.to_string())
}

#[cfg(test)]
mod tests;
