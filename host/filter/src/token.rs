//! Tokens of an expression, each with its column.

use crate::error::FilterError;

/// Sign of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Sign {
    /// The sign with its sides exchanged.
    pub fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::AtMost => Self::AtLeast,
            Self::Greater => Self::Less,
            Self::AtLeast => Self::AtMost,
            same => same,
        }
    }
}

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FilterToken {
    Open,
    Close,
    And,
    Or,
    Not,
    Flag(bool),
    Number(f64),
    Text(String),
    Name(String),
    Sign(Sign),
}

/// A token and its column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacedToken {
    pub token: FilterToken,
    pub column: usize,
}

/// Signs by their text, longer ones first.
const SIGNS: [(&str, Sign); 6] = [
    ("==", Sign::Equal),
    ("!=", Sign::Unequal),
    ("<=", Sign::AtMost),
    (">=", Sign::AtLeast),
    ("<", Sign::Less),
    (">", Sign::Greater),
];

/// Signs of other languages, with the words for them here.
const FOREIGN: [(&str, &str); 6] = [("&&", "and"), ("||", "or"), ("&", "and"), ("|", "or"), ("!", "not"), ("=", "==")];

/// Splits a text into tokens.
pub(crate) fn tokens(text: &str) -> Result<Vec<PlacedToken>, FilterError> {
    let letters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        if letters[at].is_whitespace() {
            at += 1;
            continue;
        }
        let (token, length) = token(&letters[at..]).map_err(|problem| {
            let text = text.to_owned();
            FilterError { text, column: at + 1, problem }
        })?;
        tokens.push(PlacedToken { token, column: at + 1 });
        at += length;
    }
    Ok(tokens)
}

/// The first token of the rest of a text, and its length in characters.
fn token(rest: &[char]) -> Result<(FilterToken, usize), String> {
    let starts = |word: &str| word.chars().enumerate().all(|(at, letter)| rest.get(at) == Some(&letter));
    if let Some((word, sign)) = SIGNS.iter().find(|(word, _)| starts(word)) {
        return Ok((FilterToken::Sign(*sign), word.len()));
    }
    if let Some((word, ours)) = FOREIGN.iter().find(|(word, _)| starts(word)) {
        return Err(format!("`{word}` is not a sign of filters; write `{ours}`"));
    }
    match rest[0] {
        '(' => Ok((FilterToken::Open, 1)),
        ')' => Ok((FilterToken::Close, 1)),
        quote @ ('"' | '\'') => quoted(rest, quote),
        first if first.is_ascii_digit() || matches!(first, '-' | '+' | '.') => number(rest),
        first if is_of_name(first) => Ok(word(rest)),
        other => Err(format!("`{other}` begins neither a name, a number nor a text in quotes")),
    }
}

/// A text in quotes. It has no escapes: a text that contains one kind of quote is written in the other.
fn quoted(rest: &[char], quote: char) -> Result<(FilterToken, usize), String> {
    match rest.iter().skip(1).position(|letter| *letter == quote) {
        Some(length) => Ok((FilterToken::Text(rest[1..=length].iter().collect()), length + 2)),
        None => Err(format!("the text that begins here has no closing {quote}")),
    }
}

fn number(rest: &[char]) -> Result<(FilterToken, usize), String> {
    let is_part = |at: usize, letter: char| {
        let after_exponent = at > 0 && matches!(rest[at - 1], 'e' | 'E');
        letter.is_ascii_alphanumeric()
            || matches!(letter, '.' | '_')
            || (matches!(letter, '-' | '+') && (at == 0 || after_exponent))
    };
    let length = (0..rest.len()).find(|at| !is_part(*at, rest[*at])).unwrap_or(rest.len());
    let text: String = rest[..length].iter().collect();
    let number = text.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite());
    number.map(|number| (FilterToken::Number(number), length)).ok_or_else(|| format!("`{text}` is not a finite number"))
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

fn word(rest: &[char]) -> (FilterToken, usize) {
    let length = rest.iter().position(|letter| !is_of_name(*letter)).unwrap_or(rest.len());
    let text: String = rest[..length].iter().collect();
    let token = match text.as_str() {
        "and" => FilterToken::And,
        "or" => FilterToken::Or,
        "not" => FilterToken::Not,
        "true" => FilterToken::Flag(true),
        "false" => FilterToken::Flag(false),
        _ => FilterToken::Name(text),
    };
    (token, length)
}
