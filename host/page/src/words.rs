//! Words for people: numbers, durations, and external text with its invisible characters made visible.

use std::fmt::Write as _;

use gymkhana_registry::misleads;

/// A number with up to four significant digits after the leading zeros.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.2e}");
    }
    let digits = (3.0 - size.log10().floor()).clamp(0.0, 7.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Numbers with commas between them; a dash for none.
pub(crate) fn numbers(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().copied().map(number).collect();
    if values.is_empty() { "–".to_owned() } else { values.join(", ") }
}

/// Yes or no.
pub(crate) fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// A duration in seconds.
pub(crate) fn seconds(value: f64) -> String {
    let whole = value.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{} s", number(value)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A count with a noun.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A text with characters that mislead written as escapes, apart from line ends and tabs. The template engine escapes
/// markup; these characters would make a reader see another text.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if misleads(letter) && !matches!(letter, '\n' | '\t') {
            // Writing to a `String` does not fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// A path or other text as one word of a POSIX shell.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-~:@%+=,".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with(['~', '-']) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.125, "0.125"),
            (-1234.56, "-1235"),
            (0.000_123_4, "0.0001234"),
            (1e-9, "1.00e-9"),
            (f64::NAN, "–"),
            (66.666_666, "66.67"),
            (100.0, "100"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(
            (seconds(5.0), seconds(61.0), seconds(7_260.0)),
            ("5 s".into(), "1 min 1 s".into(), "2 h 1 min".into())
        );
    }

    #[test]
    fn characters_that_hide_text_are_shown() {
        assert_eq!(visible("a\u{202e}b\u{0}c\n\td"), "a\\u{202e}b\\u{0}c\n\td");
        assert_eq!(visible("a\u{61c}b\u{180e}c\u{2028}d\u{fff9}"), "a\\u{61c}b\\u{180e}c\\u{2028}d\\u{fff9}");
        assert_eq!(visible("naïve 雪"), "naïve 雪");
    }

    #[test]
    fn shell_words_cannot_end_early() {
        assert_eq!(shell_word("out/first-run"), "out/first-run");
        assert_eq!(shell_word("my runs/it's; rm"), r"'my runs/it'\''s; rm'");
        assert_eq!(shell_word("$(id)"), "'$(id)'");
        assert_eq!(shell_word("-x"), "'-x'");
    }
}
