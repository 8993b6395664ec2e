//! Search for the answer in a message.
//!
//! ```text
//! message = any "<answer>" content "</answer>" any         the last tag
//!         | any "\boxed{" answer "}" any                   the last box
//!         | any MARK line any                              the last mark
//!         | any "\n" line
//! MARK    = NAME "*"… (":" | "：" | " is" | " =" …) | "####"
//! line    = markup* QUALIFIER* (formula rest | value rest | any formula any)
//! ```
//!
//! [`clause`] has the grammar of `value rest`, [`choice`] that of choices.

pub mod choice;
mod clause;

use std::ops::Range;

use gymkhana_sdk::OptionValue;

use crate::parser::read;

/// Place to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Place {
    /// A tag or a box, else after a mark, else the end of the message.
    Auto,
    Boxed,
    Marked,
    Last,
    Whole,
}

const BOXES: [&str; 3] = ["\\boxed{", "\\fbox{", "\\boxed {"];
const OPENING_TAG: &str = "<answer>";
const CLOSING_TAG: &str = "</answer>";
/// Names of an answer before a verb or a colon, in lower case.
const NAMES: [&str; 7] = ["answer", "答案", "ответ", "Ответ", "respuesta", "réponse", "antwort"];
/// What stands between the name and the answer.
const VERBS: [&str; 9] = [":", "：", " is", " =", " :", "是", "为", "：是", " ："];
/// The mark of GSM8K.
const HASHES: &str = "####";
/// Words between a mark and a value.
const QUALIFIERS: [&str; 11] = [
    "approximately ",
    "about ",
    "roughly ",
    "around ",
    "exactly ",
    "simply ",
    "just ",
    "therefore ",
    "thus ",
    "clearly ",
    "equal to ",
];
/// Most formulas behind `not` that are passed over.
const MAX_FORMULAS: usize = 8;
/// Delimiters of formulas.
const FORMULAS: [(&str, &str); 4] = [("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")];
/// Characters around an answer that are not part of it.
const AROUND: [char; 13] = ['*', '_', ':', '.', '"', '\'', '`', '=', '：', '。', '“', '”', '「'];

/// Byte range of the answer, if found.
pub fn find(message: &str, place: Place) -> Option<Range<usize>> {
    let tag = || tagged(message).map(|tag| in_tag(message, tag));
    let found = match place {
        Place::Boxed => boxed(message),
        Place::Marked => tag().or_else(|| boxed(message)).or_else(|| marked(message)),
        Place::Last => last(message),
        Place::Whole => Some(0..message.len()),
        Place::Auto => tag().or_else(|| boxed(message)).or_else(|| marked(message)).or_else(|| last(message)),
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

/// Content of the last `<answer>` tag.
fn tagged(message: &str) -> Option<Range<usize>> {
    let end = message.rfind(CLOSING_TAG)?;
    let start = message[..end].rfind(OPENING_TAG)? + OPENING_TAG.len();
    Some(start..end)
}

/// Answer in the content of a tag: its box, the text behind its mark, or the whole.
fn in_tag(message: &str, tag: Range<usize>) -> Range<usize> {
    let text = &message[tag.clone()];
    let inner = boxed(text).or_else(|| marked(text)).unwrap_or_else(|| value(text, bare(text, 0..text.len())));
    tag.start + inner.start..tag.start + inner.end
}

/// Value behind the last mark, in its line or the next one.
fn marked(message: &str) -> Option<Range<usize>> {
    let start = last_mark(message)?;
    let rest = trimmed(message, start..message.len(), |letter| letter.is_whitespace() || AROUND.contains(&letter));
    // Trimming may cross the end of a line, because the answer may be on the next line.
    let length = message[rest.clone()].lines().next().map_or(0, str::len);
    Some(value(message, rest.start..rest.start + length))
}

/// Place behind the last mark. Markup may stand before its colon.
fn last_mark(message: &str) -> Option<usize> {
    // Lower-casing only ASCII preserves byte offsets.
    let lower = message.to_ascii_lowercase();
    let place = |(place, name): (usize, &str)| {
        let rest = lower[place + name.len()..].trim_start_matches('*');
        let verb = VERBS.iter().find(|verb| rest.starts_with(**verb))?;
        let rest = &rest[verb.len()..];
        // `answer isn't` has another verb.
        let is_word = |letter: char| letter.is_ascii_alphabetic();
        (!(verb.ends_with(is_word) && rest.starts_with(is_word))).then(|| lower.len() - rest.len())
    };
    let named = NAMES.iter().filter_map(|name| lower.rmatch_indices(name).find_map(place));
    named.chain(lower.rfind(HASHES).map(|place| place + HASHES.len())).max()
}

/// Value of a line: the formula or the number at its start; else the line, if it is mathematics; else its last formula.
fn value(message: &str, line: Range<usize>) -> Range<usize> {
    let line = unqualified(message, line);
    let whole = bare(message, line.clone());
    let text = &message[whole.clone()];
    let leading = leading_formula(message, line.clone());
    if let Some((formula, behind)) = &leading
        && clause::ends(&message[behind.clone()])
    {
        return formula.clone();
    }
    if read(text).is_ok() && !clause::has_rest(text) {
        return whole;
    }
    if let Some(length) = clause::head(text) {
        return whole.start..whole.start + length;
    }
    // Behind a formula stands another answer.
    let formula = if leading.is_none() { formula(message, line) } else { None };
    formula.unwrap_or(whole)
}

/// Line without words such as `approximately` at its start.
fn unqualified(message: &str, line: Range<usize>) -> Range<usize> {
    let is_around = |letter: char| letter.is_whitespace() || AROUND.contains(&letter) && letter != '.';
    let mut line = trimmed(message, line, is_around);
    while let Some(word) = QUALIFIERS.iter().find(|word| message[line.clone()].starts_with(**word)) {
        line = trimmed(message, line.start + word.len()..line.end, is_around);
    }
    line
}

/// Formula at the start of a line, and what stands behind it.
fn leading_formula(message: &str, line: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let text = &message[line.clone()];
    FORMULAS.iter().find_map(|(open, close)| {
        let length = text.strip_prefix(open)?.find(close)?;
        let start = line.start + open.len();
        let inside = &message[start..start + length];
        // An amount of dollars is not a formula, and neither is the text up to the next amount.
        let is_formula = !inside.is_empty() && !inside.ends_with(char::is_whitespace);
        is_formula.then(|| (start..start + length, start + length + close.len()..line.end))
    })
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
    let Some(word) = words.find(|word| word.contains(char::is_numeric)) else {
        return Some(whole);
    };
    if words.next().is_some_and(|word| word.ends_with("not") || word.ends_with("n't")) {
        return Some(whole);
    }
    // The word is a slice of the message, so its address determines its offset.
    let start = word.as_ptr() as usize - message.as_ptr() as usize;
    Some(trimmed(message, start..start + word.len(), |letter| AROUND.contains(&letter) || ",;!?".contains(letter)))
}

/// Last formula between dollars, `\(` and `\)`, or `\[` and `\]`. One behind `not` is passed over.
fn formula(message: &str, mut within: Range<usize>) -> Option<Range<usize>> {
    for _ in 0..MAX_FORMULAS {
        let text = &message[within.clone()];
        let between = |(open, close): &(&str, &str)| {
            let end = text.rfind(close)?;
            let start = text[..end].rfind(open)?;
            (start + open.len() < end).then_some((start..end, open.len()))
        };
        let found = FORMULAS.iter().filter_map(between).max_by_key(|(found, open)| (found.end, found.start + open));
        let (found, open) = found?;
        if !text[..found.start].trim_end().ends_with("not") {
            return Some(within.start + found.start + open..within.start + found.end);
        }
        within.end = within.start + found.start;
    }
    None
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

    fn found(message: &str, place: Place) -> Option<&str> {
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
            assert_eq!(found(message, Place::Auto), Some(expected), "{message}");
        }
        for message in ["", "  \n", r"\boxed{}"] {
            assert_eq!(found(message, Place::Auto), None, "{message}");
        }
    }

    #[test]
    fn a_place_can_be_demanded() {
        let message = "\\boxed{1}\nThe answer is 2\n3";
        for (place, expected) in
            [(Place::Boxed, "1"), (Place::Marked, "1"), (Place::Last, "3"), (Place::Whole, message)]
        {
            assert_eq!(found(message, place), Some(expected), "{place:?}");
        }
        assert_eq!(found("The answer is 2", Place::Boxed), None);
        assert_eq!(found("2", Place::Marked), None);
        assert_eq!(found("\\boxed{2", Place::Boxed), None, "a box that is never closed");
    }
}
