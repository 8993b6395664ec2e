//! Rules that require no model.

use std::ops::Range;

use gymkhana_answer::{Mode, find_accepted};
use gymkhana_sdk::reward::{Ending, Trajectory, Turn};
use gymkhana_sdk::{Error, Value};

use crate::checklist::Rule;

/// Text that a rule reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Index of its turn in the trajectory.
    pub turn: usize,
    /// Offset of the text in that turn, in bytes.
    pub start: usize,
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

/// Part of a trajectory in which a rule is decided.
pub struct Scope<'a> {
    /// The trajectory.
    pub trajectory: &'a Trajectory,
    /// Seat whose calls and messages count.
    pub seat: u32,
    /// Indices of the turns whose calls count.
    pub turns: Range<usize>,
    /// Texts in the scope.
    pub said: &'a [Said],
}

/// Evaluates a rule; `None` for a rule that requires a model.
///
/// # Errors
/// [`Error::Invalid`] if the environment lacks the fact of the rule.
pub fn decide(rule: &Rule, scope: &Scope<'_>) -> Result<Option<Found>, Error> {
    let said = scope.said;
    let place = |said: &Said, span: Range<usize>| (said.turn, said.start + span.start..said.start + span.end);
    let whole = |said: &Said| Some(place(said, 0..said.text.len()));
    let found = match rule {
        Rule::Contains(words) => {
            let span = said.iter().find_map(|said| Some(place(said, find(&said.text, words)?)));
            Found { met: span.is_some(), span }
        }
        Rule::NotContains(words) => {
            let span = said.iter().find_map(|said| Some(place(said, find(&said.text, words)?)));
            Found { met: span.is_none(), span }
        }
        Rule::MaxWords(most) => {
            let words: usize = said.iter().map(|said| said.text.split_whitespace().count()).sum();
            Found { met: !said.is_empty() && words as u64 <= *most, span: said.last().and_then(whole) }
        }
        Rule::MustCall(name) => {
            let span = called(scope, name);
            Found { met: span.is_some(), span }
        }
        Rule::MustNotCall(name) => {
            let span = called(scope, name);
            Found { met: span.is_none(), span }
        }
        Rule::JsonValid(wanted) => {
            let json = said.iter().find(|said| is_json(&said.text));
            let span = json.or(said.last()).and_then(whole);
            Found { met: !said.is_empty() && json.is_some() == *wanted, span }
        }
        Rule::NumberWithin(low, high) => {
            let number = said.iter().rev().find_map(|said| {
                let (number, span) = last_number(&said.text)?;
                Some((number, place(said, span)))
            });
            let met = number.as_ref().is_some_and(|(number, _)| (*low..=*high).contains(number));
            Found { met, span: number.map(|(_, span)| span) }
        }
        Rule::Fact(name) => Found { met: is_true(scope.trajectory, name)?, span: None },
        Rule::Answer(key) => {
            let span = answered(scope, key)?;
            Found { met: span.is_some(), span }
        }
        Rule::Ask(_) | Rule::Grade(_) => return Ok(None),
    };
    Ok(Some(found))
}

/// Whether the fact of the environment's last step is true, or a number of at least 0.5. An episode that was cut off may
/// lack it.
fn is_true(trajectory: &Trajectory, name: &str) -> Result<bool, Error> {
    match trajectory.extra(name) {
        Some(Value::Flag(flag)) => Ok(*flag),
        Some(Value::Integer(integer)) => Ok(*integer >= 1),
        Some(Value::Number(number)) => Ok(*number >= 0.5),
        Some(other) => {
            let shown: String = other.shown().chars().take(60).collect();
            Err(Error::invalid(format!("the environment's fact `{name}` is `{shown}`, not a flag or a number")))
        }
        None if trajectory.ending == Ending::Terminated => Err(Error::invalid(format!(
            "the environment ended the episode without the fact `{name}`: name another one"
        ))),
        None => Ok(false),
    }
}

/// Place of the privileged answer in the final message of an episode that the environment ended.
fn answered(scope: &Scope<'_>, key: &str) -> Result<Option<(usize, Range<usize>)>, Error> {
    let trajectory = scope.trajectory;
    let wanted = trajectory.privileged(key).ok_or_else(|| {
        Error::invalid(format!("the environment has no privileged fact `{key}`: name the one with the answer"))
    })?;
    let last = trajectory.last_message(scope.seat).filter(|_| trajectory.ending == Ending::Terminated);
    Ok(last.and_then(|(turn, text)| Some((turn, find_accepted(&text, wanted, Mode::Auto)?))))
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

fn called(scope: &Scope<'_>, name: &str) -> Option<(usize, Range<usize>)> {
    scope.turns.clone().find_map(|place| match &scope.trajectory.turns[place] {
        Turn::Call(made) if made.seat == scope.seat && made.call.name == name => {
            Some((place, 0..made.call.arguments.len()))
        }
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
