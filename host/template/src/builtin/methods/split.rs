//! Methods of strings that split.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Str, is_space};
use crate::value::{Args, Val};

/// A part of a text, by byte offsets.
type Span = (usize, usize);

/// Calls a method that splits.
pub(super) fn call(cx: &Context, text: &Str, name: &str, args: Args) -> Result<Val, Fault> {
    cx.inspect(text);
    cx.work(text.len())?;
    match name {
        "split" | "rsplit" => {
            let [separator, most] = args.bind(name, ["sep", "maxsplit"], 0)?;
            let most = match most.given() {
                None => usize::MAX,
                Some(most) => usize::try_from(most.need_int("`maxsplit`")?).unwrap_or(usize::MAX),
            };
            let from_end = name == "rsplit";
            let spans = match separator.present() {
                None => at_spaces(text.as_str(), most, from_end),
                Some(separator) => {
                    let separator = separator.need_str("a separator")?;
                    cx.inspect(separator);
                    at_separators(text.as_str(), separator.as_str(), most, from_end)?
                }
            };
            Val::list(cx, parts(cx, text, &spans)?)
        }
        "splitlines" => {
            let [keeps_ends] = args.bind(name, ["keepends"], 0)?;
            Val::list(cx, parts(cx, text, &lines(text.as_str(), keeps_ends.is_true()))?)
        }
        _ => {
            let [separator] = args.bind(name, ["sep"], 1)?;
            let separator = separator.need_str("a separator")?;
            cx.inspect(separator);
            if separator.is_empty() {
                return fail("a separator is empty");
            }
            partition(cx, text, separator, name == "rpartition")
        }
    }
}

fn parts(cx: &Context, text: &Str, spans: &[Span]) -> Result<Vec<Val>, Fault> {
    cx.hold(spans.len().saturating_mul(32).saturating_add(text.len()))?;
    Ok(spans.iter().map(|(start, end)| Val::Str(text.part(*start, *end))).collect())
}

fn partition(cx: &Context, text: &Str, separator: &Str, from_end: bool) -> Result<Val, Fault> {
    let source = text.as_str();
    let found = if from_end { source.rfind(separator.as_str()) } else { source.find(separator.as_str()) };
    let end = text.len();
    let spans = match (found, from_end) {
        (Some(at), _) => [(0, at), (at, at + separator.len()), (at + separator.len(), end)],
        (None, false) => [(0, end), (end, end), (end, end)],
        (None, true) => [(0, 0), (0, 0), (0, end)],
    };
    Val::tuple(cx, parts(cx, text, &spans)?)
}

fn at_separators(text: &str, separator: &str, most: usize, from_end: bool) -> Result<Vec<Span>, Fault> {
    if separator.is_empty() {
        return fail("a separator is empty");
    }
    let mut spans = Vec::new();
    if from_end {
        let mut end = text.len();
        for (at, _) in text.rmatch_indices(separator).take(most) {
            spans.push((at + separator.len(), end));
            end = at;
        }
        spans.push((0, end));
        spans.reverse();
        return Ok(spans);
    }
    let mut start = 0;
    for (at, _) in text.match_indices(separator).take(most) {
        spans.push((start, at));
        start = at + separator.len();
    }
    spans.push((start, text.len()));
    Ok(spans)
}

fn at_spaces(text: &str, most: usize, from_end: bool) -> Vec<Span> {
    let mut spans = Vec::new();
    if from_end {
        let mut rest = text.trim_end_matches(is_space);
        while !rest.is_empty() && spans.len() < most {
            let start = rest.char_indices().rev().find(|(_, letter)| is_space(*letter));
            let start = start.map_or(0, |(at, letter)| at + letter.len_utf8());
            spans.push((start, rest.len()));
            rest = rest.get(..start).unwrap_or_default().trim_end_matches(is_space);
        }
        if !rest.is_empty() {
            spans.push((0, rest.len()));
        }
        spans.reverse();
        return spans;
    }
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let start = text.len() - rest.len();
        if spans.len() >= most {
            spans.push((start, text.len()));
            break;
        }
        let len = rest.find(is_space).unwrap_or(rest.len());
        spans.push((start, start + len));
        rest = rest.get(len..).unwrap_or_default().trim_start_matches(is_space);
    }
    spans
}

/// Lines, with or without their ends.
pub(in crate::builtin) fn lines(text: &str, keeps_ends: bool) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let is_end = matches!(letter, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
        if !is_end {
            continue;
        }
        let mut next = at + letter.len_utf8();
        if letter == '\r' && letters.next_if(|(_, letter)| *letter == '\n').is_some() {
            next += 1;
        }
        spans.push((start, if keeps_ends { next } else { at }));
        start = next;
    }
    if start < text.len() {
        spans.push((start, text.len()));
    }
    spans
}
