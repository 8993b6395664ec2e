//! What may stand around an answer, and is not part of it.
//!
//! ```text
//! message = text | any MARK spaces answer-line any | any "<answer>" text "</answer>" any
//! MARK    = ("answer" | "答案") "*"… (":" | "：") "*"…         in any case; the last mark or tag counts
//! text    = spaces | PREFIX text | OPEN text CLOSE | "*"… text | text "*"… | text ("." | "。") | answer
//! PREFIX  = "#"… " " | "> " | "- " | "* " | "+ "               heading, quotation and list of Markdown
//! OPEN, CLOSE = ** __ * _ ` " \' “” „“ ‘’ «» 「」             the same on both sides, or the pair
//! ```
//!
//! A text that is struck through (`~~`) is not an answer.

use std::ops::Range;

const NAMES: [&str; 2] = ["answer", "答案"];
const COLONS: [char; 2] = [':', '：'];
const OPENING_TAG: &str = "<answer>";
const CLOSING_TAG: &str = "</answer>";
/// Prefixes of lines in Markdown, without headings.
const PREFIXES: [&str; 4] = ["> ", "- ", "* ", "+ "];
const PAIRS: [(&str, &str); 13] = [
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("_", "_"),
    ("`", "`"),
    ("\"", "\""),
    ("\'", "\'"),
    ("“", "”"),
    ("„", "“"),
    ("‘", "’"),
    ("«", "»"),
    ("「", "」"),
    ("『", "』"),
];

/// Relevant part of a message.
pub(crate) fn relevant(message: &str) -> Range<usize> {
    // Lower-casing only ASCII preserves byte offsets.
    let lower = message.to_ascii_lowercase();
    let (marked, tagged) = (marked(&lower), tagged(&lower));
    match (marked, tagged) {
        (Some(start), tag) if tag.as_ref().is_none_or(|tag| tag.end < start) => {
            let rest = &message[start..];
            // The answer may be on the next line.
            let begin = start + rest.len() - rest.trim_start().len();
            begin..begin + message[begin..].lines().next().map_or(0, str::len)
        }
        (_, Some(tag)) => tag,
        _ => 0..message.len(),
    }
}

/// Place behind the last mark.
fn marked(lower: &str) -> Option<usize> {
    let mark = |(place, name): (usize, &str)| {
        let rest = lower[place + name.len()..].trim_start_matches('*');
        let rest = rest.strip_prefix(COLONS)?.trim_start_matches('*');
        Some(lower.len() - rest.len())
    };
    NAMES.iter().filter_map(|name| lower.rmatch_indices(name).find_map(mark)).max()
}

/// Content of the last pair of tags.
fn tagged(lower: &str) -> Option<Range<usize>> {
    let end = lower.rfind(CLOSING_TAG)?;
    let start = lower[..end].rfind(OPENING_TAG)? + OPENING_TAG.len();
    Some(start..end)
}

/// The part of a message, and what is left of it when its markup is taken off layer by layer.
pub(crate) fn layers(message: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    std::iter::successors(Some(trimmed(message, part)), move |layer| {
        let inner = trimmed(message, peeled(message, layer.clone())?);
        (!inner.is_empty()).then_some(inner)
    })
}

/// Range without surrounding spaces.
fn trimmed(message: &str, range: Range<usize>) -> Range<usize> {
    let text = &message[range.clone()];
    let start = range.start + text.len() - text.trim_start().len();
    start..start + text.trim().len()
}

/// Range without its outer layer.
fn peeled(message: &str, range: Range<usize>) -> Option<Range<usize>> {
    let text = &message[range.clone()];
    let inside = |front: usize, back: usize| {
        (front + back > 0 && front + back < text.len()).then(|| range.start + front..range.end - back)
    };
    for (open, close) in PAIRS {
        let is_longer = text.len() > open.len() + close.len();
        if is_longer && text.starts_with(open) && text.ends_with(close) {
            return inside(open.len(), close.len());
        }
    }
    let heading = text.trim_start_matches('#');
    if heading.starts_with(' ') && heading.len() < text.len() {
        return inside(text.len() - heading.len(), 0);
    }
    if let Some(prefix) = PREFIXES.iter().find(|prefix| text.starts_with(**prefix)) {
        return inside(prefix.len(), 0);
    }
    let stars = |rest: &str| text.len() - rest.len();
    let (front, back) = (stars(text.trim_start_matches('*')), stars(text.trim_end_matches('*')));
    if front + back > 0 {
        return inside(front, back);
    }
    let end = text.strip_suffix(['.', '。'])?;
    inside(0, text.len() - end.len())
}

#[cfg(test)]
mod tests {
    use crate::{Mode, find};

    /// Markup around an answer, with `@` in its place.
    const AROUND: [&str; 22] = [
        "@", "**@**", "*@*", "__@__", "_@_", "`@`", "\"@\"", "\'@\'", "“@”", "„@“", "‘@’", "«@»", "「@」", "# @",
        "### @", "> @", "- @", "* @", "@.", "**@.**", "**@**.", "  @ ",
    ];
    /// Texts before and behind, with `@` in the answer's place.
    const MARKS: [&str; 16] = [
        "@",
        "Answer: @",
        "**Answer:** @",
        "**Answer**: @",
        "**Answer: @**",
        "ANSWER:@",
        "Answer:\n@",
        "**Answer:**\n\n@",
        "Answer： @",
        "答案：@",
        "### Answer: @",
        "So it is. Final answer: @\nI am sure.",
        "<answer>@</answer>",
        "<think>x</think><answer>\n@\n</answer>",
        "Answer: London\n<answer>@</answer>",
        "<answer>London</answer>\nanswer: @",
    ];

    /// All messages of the grammar around an answer, up to two layers deep.
    fn messages(answer: &str) -> Vec<String> {
        let mut messages = Vec::new();
        for mark in MARKS {
            for outer in AROUND {
                for inner in AROUND {
                    let text = outer.replace('@', &inner.replace('@', answer));
                    messages.push(mark.replace('@', &text));
                }
            }
        }
        messages
    }

    #[test]
    fn an_answer_is_found_in_all_surroundings_and_a_near_miss_in_none() {
        let numbers = [("8", ["7", "80", "-8"]), ("3049", ["3048", "304.9", "30 49"]), ("-7", ["7", "-70", "-7.5"])];
        let texts = [
            ("Paris", ["Rome", "Paris or Rome", "not Paris"]),
            ("New York", ["York", "New York City", "NewYork"]),
            ("my_var", ["myvar", "_var", "my_va"]),
            ("Été", ["Et", "Été 2", "~~Été~~"]),
        ];
        for (wanted, misses) in numbers.into_iter().chain(texts) {
            for message in messages(wanted) {
                assert!(find(&message, wanted, Mode::Auto).is_some(), "{message:?} for {wanted}");
            }
            for miss in misses {
                for message in messages(miss) {
                    assert_eq!(find(&message, wanted, Mode::Auto), None, "{message:?} for {wanted}");
                }
            }
        }
    }

    /// Markup of the expected answer is part of it.
    #[test]
    fn an_expected_answer_with_markup_keeps_it() {
        for (message, is_right) in [("**__init__**", true), ("`__init__`", true), ("init", false), ("_init_", false)] {
            assert_eq!(find(message, "__init__", Mode::Auto).is_some(), is_right, "{message}");
        }
    }

    /// The marked answer counts, whatever else the message says.
    #[test]
    fn other_parts_of_a_message_do_not_count() {
        for message in [
            "Paris\nAnswer: Rome",
            "Answer: Paris\nAnswer: Rome",
            "Answer:\nRome\nParis",
            "<answer>Rome</answer> Paris",
            "<answer>Paris</answer><answer>Rome</answer>",
            "<answer>Paris",
            "Answer: Rome (Paris)",
            "**Paris** or **Rome**",
            "\"Paris\" and \"Paris\"",
            "~~Paris~~",
            "answer:",
            "**",
            "",
        ] {
            assert_eq!(find(message, "Paris", Mode::Auto), None, "{message:?}");
        }
    }
}
