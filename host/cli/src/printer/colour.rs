//! Colours of the words that people look for, on terminals only.

use std::borrow::Cow;
use std::io::IsTerminal;

/// Words at the start of a line, and the attributes with which they are shown.
const MARKS: [(&str, &str); 6] =
    [("error:", "1;31"), ("FAILED", "1;31"), ("warning:", "33"), ("ok  ", "32"), ("hint:", "36"), ("next:", "36")];

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
    fn nothing_is_coloured_unless_wanted() {
        assert_eq!(paint("error: no plan\n", false), "error: no plan\n");
        assert!(!is_wanted(&std::fs::File::open("/dev/null").expect("a device")));
    }
}
