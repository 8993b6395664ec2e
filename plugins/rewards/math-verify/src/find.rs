//! Search for the answer in a message.

use std::ops::Range;

use crate::parser::read;

/// Places to search, as named by the option.
pub const PLACES: [&str; 5] = ["auto", "boxed", "marked", "last", "whole"];

const BOXES: [&str; 3] = ["\\boxed{", "\\fbox{", "\\boxed {"];
/// Announcements of an answer, in lower case.
const MARKS: [&str; 4] = ["answer is", "answer:", "####", "answer ="];
/// Characters around an answer that are not part of it.
const AROUND: [char; 7] = ['*', ':', '.', '"', '\'', '`', '='];

/// Byte range of the answer, if found.
pub fn find(message: &str, place: &str) -> Option<Range<usize>> {
    let found = match place {
        "boxed" => boxed(message),
        "marked" => boxed(message).or_else(|| marked(message)),
        "last" => last(message),
        "whole" => Some(0..message.len()),
        _ => boxed(message).or_else(|| marked(message)).or_else(|| last(message)),
    };
    found.map(|found| trimmed(message, found, char::is_whitespace)).filter(|found| !found.is_empty())
}

/// Content of the last box. If that box is not closed, earlier boxes do not count either.
fn boxed(message: &str) -> Option<Range<usize>> {
    let start = BOXES.iter().filter_map(|opening| message.rfind(opening).map(|place| place + opening.len())).max()?;
    let mut depth = 1_u32;
    let end = message[start..].char_indices().find(|(_, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some(start..start + end.0)
}

/// Text after the last announcement, up to the end of its line, or the formula there.
fn marked(message: &str) -> Option<Range<usize>> {
    // Lower-casing only ASCII preserves byte offsets.
    let lower = message.to_ascii_lowercase();
    let start = MARKS.iter().filter_map(|mark| lower.rfind(mark).map(|place| place + mark.len())).max()?;
    let rest = trimmed(message, start..message.len(), |letter| letter.is_whitespace() || AROUND.contains(&letter));
    // Trimming may cross the end of a line, because the answer may be on the next line.
    let length = message[rest.clone()].lines().next().map_or(0, str::len);
    let line = rest.start..rest.start + length;
    Some(formula(message, line.clone()).unwrap_or_else(|| bare(message, line)))
}

/// Last formula; else the last line if it is mathematics; else its last number; else its words.
fn last(message: &str) -> Option<Range<usize>> {
    let end = message.trim_end().len();
    let start = message[..end].rfind('\n').map_or(0, |place| place + 1);
    let line = start..end;
    if let Some(formula) = formula(message, line.clone()) {
        return Some(formula);
    }
    let whole = bare(message, line.clone());
    if read(&message[whole.clone()]).is_ok() {
        return Some(whole);
    }
    let behind = message[line.clone()].rfind(": ").map(|place| bare(message, start + place + 2..end));
    if let Some(behind) = behind.filter(|behind| read(&message[behind.clone()]).is_ok()) {
        return Some(behind);
    }
    let mut words = message[line].split_whitespace().rev();
    let Some(word) = words.find(|word| word.contains(|letter: char| letter.is_ascii_digit())) else {
        return Some(whole);
    };
    // The word is a slice of the message, so its address determines its offset.
    let start = word.as_ptr() as usize - message.as_ptr() as usize;
    Some(trimmed(message, start..start + word.len(), |letter| AROUND.contains(&letter) || ",;!?".contains(letter)))
}

/// Last formula between dollars, `\(` and `\)`, or `\[` and `\]`.
fn formula(message: &str, within: Range<usize>) -> Option<Range<usize>> {
    let text = &message[within.clone()];
    let between = |open: &str, close: &str| {
        let end = text.rfind(close)?;
        let start = text[..end].rfind(open)? + open.len();
        (start < end).then_some(within.start + start..within.start + end)
    };
    let found = [between("$$", "$$"), between("\\(", "\\)"), between("\\[", "\\]"), between("$", "$")];
    found.into_iter().flatten().max_by_key(|found| (found.end, found.start))
}

/// Line without surrounding characters. A star may end a formula, but not delimit an answer.
fn bare(message: &str, line: Range<usize>) -> Range<usize> {
    trimmed(message, line, |letter| letter.is_whitespace() || AROUND.contains(&letter))
}

fn trimmed(message: &str, range: Range<usize>, drop: impl Fn(char) -> bool) -> Range<usize> {
    let text = &message[range.clone()];
    let front = text.trim_start_matches(&drop);
    // `.5` keeps its point.
    let kept = text.len() - front.len();
    let digit = front.starts_with(|letter: char| letter.is_ascii_digit());
    let kept = if digit && text[..kept].ends_with('.') { kept - 1 } else { kept };
    let start = range.start + kept;
    start..start + message[start..range.end].trim_end_matches(&drop).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(message: &'a str, place: &str) -> Option<&'a str> {
        find(message, place).map(|span| &message[span])
    }

    #[test]
    fn a_box_comes_before_a_mark_and_a_mark_before_the_last_line() {
        for (message, expected) in [
            (r"So \boxed{\frac{1}{2}} it is. The answer is 3.", r"\frac{1}{2}"),
            (r"\boxed{1} no, \boxed{ 2 }", "2"),
            (r"\boxed{\text{a {b} c}}", r"\text{a {b} c}"),
            ("The answer is 42.", "42"),
            ("The answer is: **42**\nI am sure.", "42"),
            ("So the final answer is $x = 5$, by symmetry.", "x = 5"),
            ("3 + 4 = 7\n#### 7", "7"),
            ("Answer:\n 1/2", "1/2"),
            ("ANSWER: .5", ".5"),
            ("Adding up,\n\nx = 7.", "x = 7"),
            ("There are 12 apples in 3 boxes.", "3"),
            ("It costs $5 and $7$", "7"),
            ("Total: 12 cm", "12 cm"),
            (r"thus \(y^2\).", "y^2"),
            ("été", "été"),
            ("It is Paris.", "It is Paris"),
        ] {
            assert_eq!(found(message, "auto"), Some(expected), "{message}");
        }
        for message in ["", "  \n", r"\boxed{}"] {
            assert_eq!(found(message, "auto"), None, "{message}");
        }
    }

    #[test]
    fn a_place_can_be_demanded() {
        let message = "\\boxed{1}\nThe answer is 2\n3";
        for (place, expected) in [("boxed", "1"), ("marked", "1"), ("last", "3"), ("whole", message)] {
            assert_eq!(found(message, place), Some(expected), "{place}");
        }
        assert_eq!(found("The answer is 2", "boxed"), None);
        assert_eq!(found("2", "marked"), None);
        assert_eq!(found("\\boxed{2", "boxed"), None, "a box that is never closed");
    }
}
