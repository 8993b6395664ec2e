//! Colours of the words that people look for and of an episode's seats, on terminals only.

use std::borrow::Cow;
use std::io::IsTerminal;

/// Words at the start of a line, and the attributes with which they are shown.
const MARKS: [(&str, &str); 6] =
    [("error:", "1;31"), ("FAILED", "1;31"), ("warning:", "33"), ("ok  ", "32"), ("hint:", "36"), ("next:", "36")];

/// Attributes of the seats in order; further seats repeat them. Red is for errors.
const SEATS: [&str; 5] = ["36", "35", "33", "32", "34"];

/// Whether output to `stream` is coloured: it is a terminal, and `NO_COLOR` is unset or empty.
pub fn is_wanted(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Colours the marks of an escaped text.
pub fn paint(text: &str, coloured: bool) -> Cow<'_, str> {
    if !coloured || !text.lines().any(|line| mark(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| match mark(line) {
        Some((indent, word, attributes)) => {
            let (before, rest) = line.split_at(indent);
            format!("{before}\u{1b}[{attributes}m{word}\u{1b}[0m{}", &rest[word.len()..])
        }
        None => line.to_owned(),
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Colours a text of a seat.
pub fn paint_seat(text: &str, seat: u32, coloured: bool) -> Cow<'_, str> {
    if !coloured {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("\u{1b}[{}m{text}\u{1b}[0m", SEATS[seat as usize % SEATS.len()]))
}

/// The mark of a line: its position, itself and its attributes.
fn mark(line: &str) -> Option<(usize, &'static str, &'static str)> {
    let rest = line.trim_start_matches(' ');
    let (word, attributes) = MARKS.into_iter().find(|(word, _)| rest.starts_with(word))?;
    Some((line.len() - rest.len(), word, attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_at_the_start_of_lines_are_coloured() {
        assert_eq!(paint("error: no plan\nhint: an error: elsewhere", true), {
            "\u{1b}[1;31merror:\u{1b}[0m no plan\n\u{1b}[36mhint:\u{1b}[0m an error: elsewhere"
        });
        assert_eq!(paint("FAILED  cost", true), "\u{1b}[1;31mFAILED\u{1b}[0m  cost");
        assert_eq!(paint("    ok  cost", true), "    \u{1b}[32mok  \u{1b}[0mcost");
        assert_eq!(paint("it FAILED; ok", true), "it FAILED; ok");
    }

    #[test]
    fn each_seat_has_its_colour() {
        assert_eq!(paint_seat("seat 0", 0, true), "\u{1b}[36mseat 0\u{1b}[0m");
        assert_eq!(paint_seat("seat 1", 1, true), "\u{1b}[35mseat 1\u{1b}[0m");
        assert_eq!(paint_seat("seat 5", 5, true), paint_seat("seat 5", 0, true));
        assert_eq!(paint_seat("seat 0", 0, false), "seat 0");
    }

    #[test]
    fn nothing_is_coloured_unless_wanted() {
        assert_eq!(paint("error: no plan\n", false), "error: no plan\n");
        assert!(!is_wanted(&std::fs::File::open("/dev/null").expect("a device")));
    }
}
