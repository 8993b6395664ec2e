//! Filters on words.

use super::soft;
use crate::builtin::methods::lines;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Str, is_space};
use crate::value::{Args, Val};

pub(super) fn wordcount(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("wordcount", [], 0)?;
    let text = soft(cx, value)?;
    cx.inspect(&text);
    cx.work(text.len())?;
    let words = text.as_str().split(|letter: char| letter != '_' && !letter.is_alphanumeric());
    Ok(Val::int(words.filter(|word| !word.is_empty()).count()))
}

/// The first characters or words, with an ending.
pub(super) fn truncate(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [length, kills_words, end, leeway] = args.bind("truncate", ["length", "killwords", "end", "leeway"], 0)?;
    let number = |value: &Val, default: i128| value.present().map_or(Ok(default), |value| value.need_int("a length"));
    let (length, leeway) = (number(&length, 255)?, number(&leeway, 5)?);
    let end = end.given().map_or(Ok(Str::own("...")), |end| end.need_str("an ending").cloned())?;
    let text = value.need_str("the value of `truncate`")?;
    cx.inspect(text);
    cx.inspect(&end);
    cx.work(text.len())?;
    let end_length = end.count() as i128;
    if length < end_length || leeway < 0 {
        return fail("the length of `truncate` is smaller than its ending");
    }
    if text.count() as i128 <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let kept = usize::try_from(length - end_length).unwrap_or(0);
    let mut stop = text.as_str().char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    if !kills_words.is_true() {
        stop = text.as_str().get(..stop).and_then(|kept| kept.rfind(' ')).unwrap_or(stop);
    }
    let mut to = Builder::default();
    to.add_part(text, 0, stop);
    to.add_str(&end);
    Val::text(cx, to.finish())
}

/// Lines of a maximum width. Words are not broken at hyphens.
pub(super) fn wordwrap(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, breaks_words, separator, breaks_hyphens] = args.bind("wordwrap", names, 0)?;
    let width = width.given().map_or(Ok(79), |width| width.need_int("a width"))?;
    let Some(width) = usize::try_from(width).ok().filter(|width| *width > 0) else {
        return fail("the width of `wordwrap` must be positive");
    };
    let breaks_words = breaks_words.given().is_none_or(Val::is_true);
    let breaks_hyphens = breaks_hyphens.given().is_none_or(Val::is_true);
    let separator = match separator.present() {
        Some(separator) => separator.need_str("a separator")?.clone(),
        None => Str::own("\n"),
    };
    let text = soft(cx, value)?;
    cx.inspect(&text);
    cx.hold(text.len().saturating_mul(8))?;
    let mut wrapped = Vec::new();
    for (start, end) in lines(text.as_str(), false) {
        let line = text.as_str().get(start..end).unwrap_or_default();
        let line = LineWrapper { width, breaks_words }.wrap(&chunks(line, breaks_hyphens));
        wrapped.push(line);
    }
    let mut to = Builder::default();
    for (place, line) in wrapped.iter().enumerate() {
        if place > 0 {
            to.add_str(&separator);
        }
        for (place, part) in line.iter().enumerate() {
            if place > 0 {
                to.add_str(&separator);
            }
            to.add_str(&text.remade(part));
            cx.write_part(to.len())?;
        }
    }
    Val::text(cx, to.finish())
}

/// White space and words, which may end behind hyphens.
fn chunks(line: &str, breaks_hyphens: bool) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    let letters: Vec<char> = line.chars().collect();
    let is_letter = |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|letter| letter.is_alphabetic());
    let mut starts_new = true;
    for (at, letter) in letters.iter().enumerate() {
        let last_is_space = chunks.last().is_some_and(|chunk| chunk.starts_with(is_space));
        if starts_new || last_is_space != is_space(*letter) {
            chunks.push(String::new());
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(*letter);
        }
        starts_new = breaks_hyphens
            && *letter == '-'
            && is_letter(at.checked_sub(1))
            && is_letter(at.checked_sub(2))
            && is_letter(Some(at + 1));
    }
    chunks
}

struct LineWrapper {
    width: usize,
    breaks_words: bool,
}

impl LineWrapper {
    fn wrap(&self, chunks: &[String]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut line = String::new();
        let mut length = 0;
        let mut end_line = |line: &mut String, length: &mut usize| {
            let kept = line.trim_end_matches(is_space);
            if !kept.is_empty() {
                lines.push(kept.to_owned());
            }
            line.clear();
            *length = 0;
        };
        let mut is_first_line = true;
        for chunk in chunks {
            let size = chunk.chars().count();
            if length + size <= self.width {
                if length == 0 && chunk.starts_with(is_space) && !is_first_line {
                    continue;
                }
                line.push_str(chunk);
                length += size;
                continue;
            }
            if size > self.width && self.breaks_words {
                for letter in chunk.chars() {
                    if length == self.width {
                        end_line(&mut line, &mut length);
                        is_first_line = false;
                    }
                    line.push(letter);
                    length += 1;
                }
                continue;
            }
            end_line(&mut line, &mut length);
            is_first_line = false;
            if !chunk.starts_with(is_space) {
                line.push_str(chunk);
                length = size;
            }
        }
        end_line(&mut line, &mut length);
        lines
    }
}
