//! Rules that require no model.

use std::ops::Range;

use gymkhana_sdk::reward::{Trajectory, Turn};
use gymkhana_sdk::text_of;

use crate::checklist::{Place, Rule};

/// Maximum length of text that rules read, in bytes, so that rules stay fast for every input.
const LONGEST: usize = 1 << 20;

/// Message of a seat.
pub struct Said {
    /// Index of its turn.
    pub turn: usize,
    /// Text.
    pub text: String,
}

/// Result of a rule.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// Whether the rule is met.
    pub met: bool,
    /// Turn and byte range that prove or violate the rule.
    pub span: Option<(usize, Range<usize>)>,
}

/// Messages in an item's scope: the final message, or all messages of the seat.
pub fn said(trajectory: &Trajectory, seat: u32, place: Place) -> Vec<Said> {
    let cut = |mut text: String| {
        text.truncate(text.floor_char_boundary(LONGEST));
        text
    };
    match place {
        Place::Last => {
            trajectory.last_message(seat).map(|(turn, text)| Said { turn, text: cut(text) }).into_iter().collect()
        }
        Place::All => {
            let message = |(turn, made): (usize, &Turn)| match made {
                Turn::Message(message) if message.seat == seat => {
                    Some(Said { turn, text: cut(text_of(&message.content)) })
                }
                _ => None,
            };
            trajectory.turns.iter().enumerate().filter_map(message).collect()
        }
    }
}

/// Evaluates a rule; `None` for a rule that requires a model.
pub fn decide(rule: &Rule, said: &[Said], trajectory: &Trajectory, seat: u32) -> Option<Found> {
    let whole = |said: &Said| Some((said.turn, 0..said.text.len()));
    let found = match rule {
        Rule::Contains(words) => {
            let span = said.iter().find_map(|said| Some((said.turn, find(&said.text, words)?)));
            Found { met: span.is_some(), span }
        }
        Rule::NotContains(words) => {
            let span = said.iter().find_map(|said| Some((said.turn, find(&said.text, words)?)));
            Found { met: span.is_none(), span }
        }
        Rule::MaxWords(most) => {
            let words: usize = said.iter().map(|said| said.text.split_whitespace().count()).sum();
            Found { met: !said.is_empty() && words as u64 <= *most, span: said.last().and_then(whole) }
        }
        Rule::MustCall(name) => {
            let span = called(trajectory, seat, name);
            Found { met: span.is_some(), span }
        }
        Rule::MustNotCall(name) => {
            let span = called(trajectory, seat, name);
            Found { met: span.is_none(), span }
        }
        Rule::JsonValid(wanted) => {
            let json = said.iter().find(|said| is_json(&said.text));
            let span = json.or(said.last()).and_then(whole);
            Found { met: !said.is_empty() && json.is_some() == *wanted, span }
        }
        Rule::NumberWithin(low, high) => {
            let number = said.iter().rev().find_map(|said| Some((said.turn, last_number(&said.text)?)));
            let met = number.as_ref().is_some_and(|(_, (number, _))| (*low..=*high).contains(number));
            Found { met, span: number.map(|(turn, (_, span))| (turn, span)) }
        }
        Rule::Ask(_) | Rule::Grade(_) => return None,
    };
    Some(found)
}

/// Byte range of the words, ignoring case. Lower-casing can change lengths, so letters are compared one by one.
fn find(text: &str, words: &str) -> Option<Range<usize>> {
    let mut lower = String::with_capacity(text.len());
    let mut origins = Vec::with_capacity(text.len() + 1);
    for (place, letter) in text.char_indices() {
        lower.extend(letter.to_lowercase());
        origins.resize(lower.len(), place);
    }
    origins.push(text.len());
    let words: String = words.chars().flat_map(char::to_lowercase).collect();
    let start = lower.find(&words)?;
    let last = origins[start + words.len() - 1];
    let end = text[last..].chars().next().map_or(text.len(), |letter| last + letter.len_utf8());
    Some(origins[start]..end)
}

fn called(trajectory: &Trajectory, seat: u32, name: &str) -> Option<(usize, Range<usize>)> {
    trajectory.turns.iter().enumerate().find_map(|(place, turn)| match turn {
        Turn::Call(made) if made.seat == seat && made.call.name == name => Some((place, 0..made.call.arguments.len())),
        _ => None,
    })
}

/// Whether a text, or its only code block, is a JSON object or list. A bare word or number is formally JSON, but not
/// accepted.
fn is_json(text: &str) -> bool {
    let blocks: Vec<&str> = text.split("```").collect();
    let inside = match blocks[..] {
        [_, block, _] => block.strip_prefix("json").unwrap_or(block),
        _ => text,
    };
    let inside = inside.trim();
    inside.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(inside).is_ok()
}

/// Last number of a text: digits with thousands commas, decimals, and a sign that does not follow a digit or letter.
fn last_number(text: &str) -> Option<(f64, Range<usize>)> {
    let bytes = text.as_bytes();
    let part = |place: usize| {
        let inside = |step: usize| bytes.get(place + step).is_some_and(u8::is_ascii_digit);
        let thousands = bytes[place] == b',' && (1..=3).all(inside) && !inside(4);
        let point = bytes[place] == b'.' && inside(1);
        bytes[place].is_ascii_digit() || (place > 0 && bytes[place - 1].is_ascii_digit() && (thousands || point))
    };
    let end = (0..bytes.len()).rev().find(|place| bytes[*place].is_ascii_digit())? + 1;
    let mut start = end - 1;
    while start > 0 && part(start - 1) {
        start -= 1;
    }
    let before = |place: usize| place.checked_sub(1).map(|place| bytes[place]);
    let sign = before(start) == Some(b'-')
        && !before(start - 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b')');
    let start = if sign { start - 1 } else { start };
    let number = text[start..end].replace(',', "").parse().ok()?;
    Some((number, start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_alphabet() {
        for (text, words, expected) in [
            ("Yes, PLEASE do.", "please", Some("PLEASE")),
            ("İstanbul, ÉTÉ!", "été", Some("ÉTÉ")),
            ("İ", "i", Some("İ")),
            ("no", "please", None),
            ("", "x", None),
        ] {
            assert_eq!(find(text, words).map(|span| &text[span]), expected, "{text}");
        }
    }

    #[test]
    fn the_last_number_is_read_as_written() {
        for (text, expected) in [
            ("from 3 to 1,234.5.", Some(1234.5)),
            ("it is -7", Some(-7.0)),
            ("10-7", Some(7.0)),
            ("-0.5 degrees", Some(-0.5)),
            ("3.", Some(3.0)),
            ("1,2", Some(2.0)),
            ("none", None),
        ] {
            assert_eq!(last_number(text).map(|(number, _)| number), expected, "{text}");
        }
    }

    #[test]
    fn json_is_read_from_the_whole_text_or_its_only_block() {
        for (text, expected) in [
            ("{\"a\": 1}", true),
            (" [1, 2]\n", true),
            ("Here:\n```json\n{\"a\": 1}\n```\nDone.", true),
            ("```\n[1]\n```", true),
            ("7", false),
            ("{\"a\": 1", false),
            ("see {\"a\": 1}", false),
            ("", false),
        ] {
            assert_eq!(is_json(text), expected, "{text}");
        }
        assert!(!is_json(&"[".repeat(200_000)), "a depth that no parser follows");
    }
}
