//! Escaping of untrusted text for a terminal.

use std::borrow::Cow;

use gymkhana_registry::misleads;

/// Escapes characters that move the cursor, change colours, reverse the reading direction or are invisible. Line ends and
/// tabs stay.
pub fn escape_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Most characters of a line of an error. Errors quote lines of files, which have no bound.
const LONGEST_LINE: usize = 2000;

/// Cuts lines that are too long to read.
pub fn cut_lines(text: &str) -> Cow<'_, str> {
    let is_long = |line: &str| line.len() > LONGEST_LINE && line.chars().nth(LONGEST_LINE).is_some();
    if !text.lines().any(is_long) {
        return Cow::Borrowed(text);
    }
    let cut = |line: &str| {
        let kept: String = line.chars().take(LONGEST_LINE).collect();
        match line.len() - kept.len() {
            0 => kept,
            more => format!("{kept}… ({more} more bytes)"),
        }
    };
    Cow::Owned(text.lines().map(cut).collect::<Vec<_>>().join("\n"))
}

/// Escapes the same characters, line ends and tabs: text of a stranger that must stay within its line.
pub fn escape_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) || matches!(character, '\n' | '\t') {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Escapes the same characters of JSON text as `\u` sequences; they occur in its strings only.
pub fn escape_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) {
            let mut units = [0; 2];
            shown.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_harmful(character: char) -> bool {
    misleads(character) && !matches!(character, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_and_others_stay() {
        let short = format!("error: {}\nhint: b", "é".repeat(1993));
        assert!(matches!(cut_lines(&short), Cow::Borrowed(_)));
        let long = format!("error: {}\nhint: b", "é".repeat(1_000_000));
        assert_eq!(cut_lines(&long), format!("error: {}… (1996014 more bytes)\nhint: b", "é".repeat(1993)));
    }

    #[test]
    fn terminal_sequences_are_escaped() {
        assert_eq!(escape_terminal("\x1b[2J\x1b]0;owned\x07"), "\\u{1b}[2J\\u{1b}]0;owned\\u{7}");
        assert_eq!(escape_terminal("over\rwritten \u{9b}31m \u{202e}txt"), "over\\rwritten \\u{9b}31m \\u{202e}txt");
    }

    #[test]
    fn every_mark_that_misleads_is_escaped() {
        let marks = [
            '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{180e}', '\u{2028}',
            '\u{fff9}',
        ];
        for mark in marks {
            assert_eq!(escape_terminal(&format!("a{mark}b")), format!("a{}b", mark.escape_default()));
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(
            escape_line("about\n    wants  none\r\t\x1b[2J ä 漢字"),
            "about\\n    wants  none\\r\\t\\u{1b}[2J ä 漢字"
        );
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({ "text": "\x1b[2J\x7f\u{9b}31m \u{202e}txt\u{61c} 🙂\n" });
        let shown = escape_json(&value.to_string()).into_owned();
        assert!(!shown.chars().any(is_harmful), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }

    #[test]
    fn what_people_write_stays() {
        let text = "two lines,\n\tan indent, ä, 漢字, 🙂";
        assert!(matches!(escape_terminal(text), Cow::Borrowed(same) if same == text));
    }
}
