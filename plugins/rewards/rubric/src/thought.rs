//! Units of thought of a message.
//!
//! The reasoning of a message is the text between `<think>` and `</think>`; the text before `</think>` if the prompt
//! contains the opening tag; the text after `<think>` if the reply was cut; the whole message without these tags. Its
//! units are its tagged blocks, such as `<PLAN>…</PLAN>`, and outside of the blocks its paragraphs, which blank lines
//! separate. Every word of the reasoning except tags is in a unit, so nothing escapes the verdicts.

use std::collections::BTreeMap;
use std::ops::Range;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Parts of a message, as byte ranges.
#[derive(Debug, PartialEq, Eq)]
pub struct Thoughts {
    /// Units of thought, in order, without surrounding spaces.
    pub units: Vec<Range<usize>>,
    /// Text after the reasoning.
    pub rest: Range<usize>,
}

/// Splits a message. From the `most`th unit on, the reasoning is one unit.
pub fn thoughts(text: &str, most: usize) -> Thoughts {
    let close = text.rfind(CLOSE);
    let end = close.unwrap_or(text.len());
    let start = text[..end].find(OPEN).map_or(0, |open| open + OPEN.len());
    let rest = close.map_or(text.len(), |close| close + CLOSE.len())..text.len();
    let mut units = Vec::new();
    let mut outside = start;
    for block in blocks(text, start..end) {
        paragraphs(text, outside..block.outer.start, &mut units);
        let inner = trimmed(text, block.inner);
        units.extend((!inner.is_empty()).then_some(inner));
        outside = block.outer.end;
    }
    paragraphs(text, outside..end, &mut units);
    if units.len() > most
        && let Some(last) = units.last().map(|last| last.end)
    {
        units.truncate(most);
        units.iter_mut().skip(most - 1).for_each(|unit| unit.end = last);
    }
    Thoughts { units, rest }
}

/// A tagged block: its text, and the same with its tags.
struct Block {
    inner: Range<usize>,
    outer: Range<usize>,
}

/// Tagged blocks that are not inside of another one.
fn blocks(text: &str, within: Range<usize>) -> Vec<Block> {
    let tags = tags(text, within.clone());
    let mut closing: BTreeMap<&str, Vec<&Tag<'_>>> = BTreeMap::new();
    for tag in tags.iter().filter(|tag| tag.closes) {
        closing.entry(tag.name).or_default().push(tag);
    }
    let mut blocks: Vec<Block> = Vec::new();
    for open in tags.iter().filter(|tag| !tag.closes) {
        let free = blocks.last().is_none_or(|block| block.outer.end <= open.span.start);
        let ends = closing.get(open.name).map_or(&[][..], |ends| &ends[..]);
        let next = ends.partition_point(|close| close.span.start < open.span.end);
        if let (true, Some(close)) = (free, ends.get(next)) {
            blocks.push(Block { inner: open.span.end..close.span.start, outer: open.span.start..close.span.end });
        }
    }
    blocks
}

/// Tag without attributes, such as `<PLAN>` or `</PLAN>`.
struct Tag<'a> {
    name: &'a str,
    closes: bool,
    span: Range<usize>,
}

fn tags(text: &str, within: Range<usize>) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    for (place, _) in text[within.clone()].match_indices('<') {
        let start = within.start + place;
        let after = &text[start + 1..within.end];
        let (closes, after) = after.strip_prefix('/').map_or((false, after), |after| (true, after));
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let length = after.bytes().take_while(|byte| in_name(*byte)).count();
        if after.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && after[length..].starts_with('>') {
            let span = start..start + 1 + usize::from(closes) + length + 1;
            tags.push(Tag { name: &after[..length], closes, span });
        }
    }
    tags
}

/// Adds the paragraphs in a range: runs of lines that are not blank.
fn paragraphs(text: &str, within: Range<usize>, units: &mut Vec<Range<usize>>) {
    let mut place = within.start;
    let mut open: Option<Range<usize>> = None;
    for line in text[within].split_inclusive('\n') {
        let words = trimmed(text, place..place + line.len());
        if words.is_empty() {
            units.extend(open.take());
        } else {
            open = Some(open.map_or(words.start, |open| open.start)..words.end);
        }
        place += line.len();
    }
    units.extend(open);
}

/// Range without spaces at its ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let inside = &text[range.clone()];
    let start = range.start + (inside.len() - inside.trim_start().len());
    start..start + inside.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, most: usize) -> (Vec<&str>, &str) {
        let thoughts = thoughts(text, most);
        (thoughts.units.into_iter().map(|unit| &text[unit]).collect(), &text[thoughts.rest])
    }

    #[test]
    fn reasoning_is_split_into_blocks_and_paragraphs() {
        for (text, units, rest) in [
            ("<think>\nFirst\nline.\n\n \nSecond.\n</think>\nSo 7.", vec!["First\nline.", "Second."], "\nSo 7."),
            ("a <PLAN>look\n\nit up</PLAN><CHECK-1> is é </CHECK-1> z", vec!["a", "look\n\nit up", "is é", "z"], ""),
            ("from the prompt\n</think>done", vec!["from the prompt"], "done"),
            ("before <think>cut off", vec!["cut off"], ""),
            ("<think></think>7", vec![], "7"),
            ("<a> <b>x</b> </a>", vec!["<b>x</b>"], ""),
            ("<a>open</b> <b>x</b>", vec!["<a>open</b>", "x"], ""),
            ("1 < 2 <a href> </> <1>x</1>", vec!["1 < 2 <a href> </> <1>x</1>"], ""),
            ("<a></a>", vec![], ""),
            (" \n\n ", vec![], ""),
            ("", vec![], ""),
        ] {
            assert_eq!(split(text, 9), (units, rest), "{text}");
        }
    }

    #[test]
    fn the_last_unit_holds_all_that_follows() {
        assert_eq!(split("a\n\nb\n\n<P>c</P>\n\nd", 2).0, ["a", "b\n\n<P>c</P>\n\nd"]);
        assert_eq!(split("a\n\nb", 1).0, ["a\n\nb"]);
    }

    /// A scan of the rest for each tag would take minutes.
    #[test]
    fn many_unclosed_tags_are_split_in_time() {
        let text: String = (0..100_000).map(|number| format!("<a{number}>")).collect();
        assert_eq!(split(&text, 16).0, [&text]);
    }
}
