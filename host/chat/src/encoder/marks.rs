//! The added tokens of a tokenizer that text from outside must not become.

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value as Json;
use tokenizers::{AddedToken, Tokenizer};

/// The marks of a tokenizer.
pub(super) struct Marks {
    /// Whether the token of each id up to the last mark is one.
    is_mark: Vec<bool>,
    /// The mark that the model gives for a text without tokens.
    pub unknown: Option<u32>,
    pub texts: Vec<String>,
    /// Finds the marks in a text, if a text between two of them is tokenised like a text of its own.
    pub finder: Option<AhoCorasick>,
    /// Id of each mark of `finder`, by its number there.
    pub numbers: Vec<u32>,
}

impl Marks {
    pub(super) fn of(tokenizer: &Tokenizer, file: &Json) -> Result<Self, String> {
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let mut marks: Vec<(u32, &AddedToken)> =
            added.iter().filter(|(_, token)| is_mark(token)).map(|(id, token)| (*id, token)).collect();
        marks.sort_by_key(|(id, _)| *id);
        let plain = |token: &AddedToken| {
            !(token.single_word || token.lstrip || token.rstrip || token.normalized && has_normalizer(file))
        };
        let are_plain = marks.len() == added.len() && marks.iter().all(|(_, token)| plain(token));
        let finder = if are_plain && is_local(file) && !marks.is_empty() {
            let texts = marks.iter().map(|(_, token)| token.content.as_str());
            let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
            Some(built.map_err(|error| error.to_string())?)
        } else {
            None
        };
        let unknown = file["model"]["unk_token"].as_str().and_then(|text| tokenizer.token_to_id(text));
        let unknown = unknown.or_else(|| u32::try_from(file["model"]["unk_id"].as_u64()?).ok());
        Ok(Self {
            unknown,
            is_mark: flags(&marks),
            texts: marks.iter().map(|(_, token)| token.content.clone()).collect(),
            numbers: marks.iter().map(|(id, _)| *id).collect(),
            finder,
        })
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.is_mark.get(id as usize).is_some_and(|is_mark| *is_mark)
    }
}

/// Whether the token of each id up to the last mark is one, for marks in the order of their ids.
fn flags(marks: &[(u32, &AddedToken)]) -> Vec<bool> {
    let mut flags = vec![false; marks.last().map_or(0, |(last, _)| *last as usize + 1)];
    for (id, _) in marks {
        flags[*id as usize] = true;
    }
    flags
}

/// Whether an added token is a mark: words and white space, as some tokenizers add them, are ordinary text.
fn is_mark(token: &AddedToken) -> bool {
    let is_sign = |letter: char| !letter.is_alphanumeric() && !letter.is_whitespace();
    !token.content.is_empty() && (token.special || token.content.chars().any(is_sign))
}

fn has_normalizer(file: &Json) -> bool {
    !file["normalizer"].is_null()
}

/// Whether the tokens of a text between two marks depend on that text alone.
fn is_local(file: &Json) -> bool {
    fn parts<'j>(component: &'j Json, list: &str) -> Vec<&'j Json> {
        match component[list].as_array() {
            Some(parts) => parts.iter().collect(),
            None => vec![component],
        }
    }
    parts(&file["pre_tokenizer"], "pretokenizers").iter().all(|part| part["prepend_scheme"] != "first")
}
