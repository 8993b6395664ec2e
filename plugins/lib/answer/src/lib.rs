//! Search for an answer in a message, robust against messages that list many candidates.
//!
//! The relevant part is the content of the last `<answer>…</answer>`, or the line behind the last `answer:` if that comes
//! later, or the whole message without either. A numeric answer requires that the part contains exactly one number; a text
//! answer requires that the part equals the answer. The module `markup` has the grammar of what may stand around it.

mod markup;

use std::ops::Range;

use gymkhana_sdk::{OptionValue, Value};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Pow, Zero};

/// Comparison of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Mode {
    /// Numbers as numbers and other answers as texts.
    Auto,
    /// Numbers only.
    Number,
    /// Texts only.
    Text,
}

/// Maximum length of a number; longer ones equal no answer, because parsing them would be too expensive.
const DIGIT_LIMIT: usize = 1_000;

/// Accepted answers of a privileged fact: the texts of a JSON list of texts, or the value as text.
#[must_use]
pub fn accepted(fact: &Value) -> Vec<String> {
    let list = match fact {
        Value::Other(json) => serde_json::from_str::<Vec<String>>(json).ok(),
        _ => None,
    };
    list.filter(|list| !list.is_empty()).unwrap_or_else(|| vec![fact.shown()])
}

/// Byte range of one of the accepted answers of a fact in `message`; `None` if the message gives none of them.
#[must_use]
pub fn find_accepted(message: &str, fact: &Value, mode: Mode) -> Option<Range<usize>> {
    accepted(fact).iter().find_map(|wanted| find(message, wanted, mode))
}

/// Byte range of the expected answer in `message`; `None` if the message does not give it.
#[must_use]
pub fn find(message: &str, wanted: &str, mode: Mode) -> Option<Range<usize>> {
    let span = markup::relevant(message);
    let wanted_number = if mode == Mode::Text { None } else { whole_number(wanted) };
    match wanted_number {
        Some(number) => {
            let (found, place) = only_number(&message[span.clone()])?;
            (found == number).then_some(span.start + place.start..span.start + place.end)
        }
        // With a numeric mode and an expected answer that is not a number, no message matches.
        None if mode == Mode::Number => None,
        None => {
            let wanted = folded(wanted);
            markup::layers(message, span).find(|layer| folded(&message[layer.clone()]) == wanted)
        }
    }
}

/// Text without irrelevant differences: surrounding spaces, case and a final period.
fn folded(text: &str) -> String {
    let text = text.trim();
    text.strip_suffix(['.', '。']).unwrap_or(text).trim_end().to_lowercase()
}

/// Value of a text that consists of one number.
fn whole_number(text: &str) -> Option<BigRational> {
    let text = text.trim();
    let (number, place) = only_number(text)?;
    (place == (0..text.len())).then_some(number)
}

/// Number in `text` with its byte range, if there is exactly one.
fn only_number(text: &str) -> Option<(BigRational, Range<usize>)> {
    let first = next_number(text, 0)?;
    let another = next_number(text, first.end);
    if another.is_some() {
        return None;
    }
    Some((value(&text[first.clone()])?, first))
}

/// Byte range of the first number at or after `from`: sign, digits with or without thousands commas, decimals and a
/// denominator. `10-3` contains two numbers, because a sign cannot follow a digit, letter or parenthesis.
fn next_number(text: &str, from: usize) -> Option<Range<usize>> {
    let digit = from + text[from..].find(|symbol: char| symbol.is_ascii_digit())?;
    let point = text[from..digit].ends_with('.') && !text[..digit - 1].ends_with(|last: char| last.is_alphanumeric());
    let mut start = if point { digit - 1 } else { digit };
    for sign in ["-", "−", "+"] {
        if let Some(before) = text[from..start].strip_suffix(sign) {
            let before = &text[..from + before.len()];
            if !before.ends_with(|last: char| last.is_alphanumeric() || last == ')') {
                start = before.len();
                break;
            }
        }
    }
    let mut end = digit + digits(&text[digit..]);
    if !point {
        end += thousands(&text[digit..end], &text[end..]);
        end += decimals(&text[end..]);
    }
    // A fraction such as `7/3`, but not `7/x`.
    if let Some(denominator) = text[end..].strip_prefix('/').map(digits).filter(|length| *length > 0) {
        end += 1 + denominator;
    }
    Some(start..end)
}

/// Number of leading digits.
fn digits(text: &str) -> usize {
    text.len() - text.trim_start_matches(|symbol: char| symbol.is_ascii_digit()).len()
}

/// Length of `,234,567` after one to three digits; `1,2` is two numbers, not a decimal comma.
fn thousands(leading: &str, text: &str) -> usize {
    let mut length = 0;
    while leading.len() <= 3 && text[length..].strip_prefix(',').map(digits) == Some(3) {
        length += 4;
    }
    length
}

/// Length of `.25`; a period without digits ends a sentence.
fn decimals(text: &str) -> usize {
    text.strip_prefix('.').map(digits).filter(|length| *length > 0).map_or(0, |length| length + 1)
}

/// Exact value of a number found by [`next_number`].
fn value(number: &str) -> Option<BigRational> {
    let negative = number.starts_with(['-', '−']);
    let plain: String = number.chars().filter(|symbol| !matches!(symbol, '-' | '−' | '+' | ',')).collect();
    if plain.len() > DIGIT_LIMIT {
        return None;
    }
    let (numerator, denominator) = plain.split_once('/').unwrap_or((&plain, "1"));
    let (whole, fraction) = numerator.split_once('.').unwrap_or((numerator, ""));
    let top: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let denominator: BigInt = denominator.parse().ok()?;
    if denominator.is_zero() {
        return None;
    }
    let value = BigRational::new(top, denominator * BigInt::from(10).pow(fraction.len()));
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(message: &str, wanted: &str) -> Option<String> {
        find(message, wanted, Mode::Auto).map(|span| message[span].to_owned())
    }

    #[test]
    fn equal_numbers_are_found_however_they_are_written() {
        for (message, wanted, expected) in [
            ("3049", "3049", "3049"),
            ("There are 3,049 pens.", "3049", "3,049"),
            ("It is -7.", "-7", "-7"),
            ("It is −7.", "-7", "−7"),
            ("+5", "5", "+5"),
            ("0.5", "1/2", "0.5"),
            ("about .5 of it", "1/2", ".5"),
            ("7/3", "14/6", "7/3"),
            ("3049.0", "3049", "3049.0"),
            ("$1,234,567.50", "1234567.5", "1,234,567.50"),
            ("Ann has 37*84 pens.\nAnswer: 3108", "3108", "3108"),
            ("answer: 5\nno, wait. ANSWER: 6 pens", "6", "6"),
            ("007", "7", "007"),
            ("(8)", "8", "8"),
        ] {
            assert_eq!(found(message, wanted).as_deref(), Some(expected), "{message}");
        }
    }

    #[test]
    fn fishing_catches_nothing() {
        for (message, wanted) in [
            ("", "42"),
            ("none", "42"),
            ("41 42 43", "42"),
            ("41, 42", "42"),
            ("40-42", "42"),
            ("x=42, y=42", "42"),
            ("1e42", "42"),
            ("answer: 41 or 42", "42"),
            ("answer: 42\nanswer: 41", "42"),
            ("42\nanswer:", "42"),
            ("1,42", "42"),
            ("1,234,42", "42"),
            ("42.", "42.5"),
            ("42/0", "42"),
            ("4 2", "42"),
            ("-42", "42"),
            ("42 is the answer: 41", "42"),
        ] {
            assert_eq!(found(message, wanted), None, "{message}");
        }
        let long = "9".repeat(2_000_000);
        assert!(find(&long, &long, Mode::Number).is_none(), "a number too long to be worth reading");
    }

    #[test]
    fn text_is_compared_without_case_and_outer_spaces() {
        assert_eq!(found("  Paris.\n", "paris").as_deref(), Some("Paris."));
        assert_eq!(found("I think so. Answer: Paris", "Paris").as_deref(), Some("Paris"));
        assert_eq!(found("Paris or Rome", "Paris"), None);
        assert_eq!(found("12 rue Été", "12 RUE ÉTÉ").as_deref(), Some("12 rue Été"));
    }

    #[test]
    fn one_of_several_accepted_answers_is_enough() {
        let list = Value::Other("[\"Shakespeare\", \"William Shakespeare\", \"7\"]".to_owned());
        for right in ["Shakespeare", "william shakespeare.", "It is 7."] {
            assert!(find_accepted(right, &list, Mode::Auto).is_some(), "{right}");
        }
        for wrong in ["Marlowe", "Shakespeare or William Shakespeare", "[\"Shakespeare\"]", ""] {
            assert_eq!(find_accepted(wrong, &list, Mode::Auto), None, "{wrong}");
        }
        // A list of numbers is one answer, and so is a text.
        assert_eq!(accepted(&Value::Other("[1,2]".to_owned())), ["[1,2]"]);
        assert_eq!(accepted(&Value::Text("[\"a\"]".to_owned())), ["[\"a\"]"]);
        assert_eq!(accepted(&Value::Integer(4)), ["4"]);
    }

    #[test]
    fn a_mode_can_be_forced() {
        assert_eq!(find("7.0", "7", Mode::Text), None);
        assert_eq!(find("7", "7", Mode::Text), Some(0..1));
        assert_eq!(find("Paris", "Paris", Mode::Number), None);
        assert_eq!(find("it is 7", "7", Mode::Number), Some(6..7));
    }
}
