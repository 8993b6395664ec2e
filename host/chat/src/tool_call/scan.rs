//! Search for the first of several marks in a text, in one pass.

/// Splits text at the first of the marks: the text before it, the mark, and the text behind it. The longest of the
/// marks at a place counts. The time is that of one pass up to the mark, however many marks are absent.
pub(super) fn split_at_mark<'t, 'm>(text: &'t str, marks: &[&'m str]) -> Option<(&'t str, &'m str, &'t str)> {
    let mut begins = [false; 256];
    for byte in marks.iter().filter_map(|mark| mark.bytes().next()) {
        begins[usize::from(byte)] = true;
    }
    let bytes = text.as_bytes();
    let places = bytes.iter().enumerate().filter(|(_, byte)| begins[usize::from(**byte)]);
    places.into_iter().find_map(|(at, _)| {
        let here = marks.iter().filter(|mark| !mark.is_empty() && bytes[at..].starts_with(mark.as_bytes()));
        let mark = here.max_by_key(|mark| mark.len())?;
        Some((text.get(..at)?, *mark, text.get(at + mark.len()..)?))
    })
}

/// Splits text in front of the first of the marks, or at its end.
pub(super) fn split_before<'t>(text: &'t str, marks: &[&str]) -> (&'t str, &'t str) {
    let at = split_at_mark(text, marks).map_or(text.len(), |(before, ..)| before.len());
    text.split_at(at)
}

/// The part of `whole` in front of `rest`, which is its end.
pub(super) fn before<'t>(whole: &'t str, rest: &str) -> &'t str {
    whole.get(..whole.len().saturating_sub(rest.len())).unwrap_or(whole)
}

/// The text behind the mark if it begins with the mark, whitespace in front of the mark aside.
pub(super) fn behind<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    if mark.is_empty() { None } else { text.trim_start().strip_prefix(mark) }
}
