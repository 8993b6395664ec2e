//! Sections of a text: marks of the template, and the texts between them.

use aho_corasick::AhoCorasick;

use super::Sourced;

/// A section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextSection<'t> {
    /// A mark: its number, and the offset of its first byte.
    Mark { number: usize, start: usize },
    /// A text.
    Text {
        text: &'t str,
        /// Offset of its first byte.
        start: usize,
        /// Whether many conversations have it: the template wrote it, or the run.
        is_shared: bool,
    },
}

/// The sections of a text, and the number of marks with a byte from outside, which are parts of texts.
pub(super) fn sections<'t>(finder: &AhoCorasick, sourced: Sourced<'t>) -> (Vec<TextSection<'t>>, u32) {
    let Sourced { text, .. } = sourced;
    let (mut sections, mut disabled) = (Vec::new(), 0);
    let mut last = 0;
    let mut at = 0;
    while let Some(found) = finder.find(aho_corasick::Input::new(text).range(at..)) {
        if sourced.is_touched(&found.range()) {
            // A shorter or a later mark may begin inside of a forged one.
            disabled += 1;
            let first = text[found.start()..].chars().next().map_or(1, char::len_utf8);
            at = found.start() + first;
            continue;
        }
        push(&mut sections, sourced, last..found.start());
        sections.push(TextSection::Mark { number: found.pattern().as_usize(), start: found.start() });
        last = found.end();
        at = last;
    }
    push(&mut sections, sourced, last..text.len());
    (sections, disabled)
}

fn push<'t>(sections: &mut Vec<TextSection<'t>>, sourced: Sourced<'t>, range: std::ops::Range<usize>) {
    if !range.is_empty() {
        let is_shared = range.end <= sourced.shared || !sourced.is_touched(&range);
        sections.push(TextSection::Text { text: &sourced.text[range.clone()], start: range.start, is_shared });
    }
}
