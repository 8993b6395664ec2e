//! Methods of strings, apart from searching and splitting.

use super::{search, split};
use crate::builtin::format::format;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Mark, Str, is_space};
use crate::value::{Args, Val, items_of};

/// Calls a method of a string. Most methods of HTML give HTML.
pub(super) fn call(cx: &Context, text: &Str, name: &str, args: Args) -> Result<Val, Fault> {
    match call_plain(cx, text, name, args)? {
        Val::Str(result) if text.is_markup() => Ok(Val::Str(result.with_markup(true))),
        result => Ok(result),
    }
}

fn call_plain(cx: &Context, text: &Str, name: &str, args: Args) -> Result<Val, Fault> {
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(name, ["chars"], 0)?;
            strip(cx, text, &chars, name != "rstrip", name != "lstrip")
        }
        "count" | "find" | "rfind" | "index" | "rindex" | "startswith" | "endswith" => {
            search::call(cx, text, name, args)
        }
        "split" | "rsplit" | "splitlines" | "partition" | "rpartition" => split::call(cx, text, name, args),
        "join" => {
            let [items] = args.bind(name, ["iterable"], 1)?;
            join(cx, text, &items_of(cx, &items)?.items, false)
        }
        "format" => format(cx, text, &args),
        "format_map" => {
            let [map] = args.bind(name, ["map"], 1)?;
            let Val::Dict(dict) = &map else { return fail("`format_map` needs a dictionary") };
            let mut args = Args::default();
            for (key, value) in dict.entries() {
                let key = key.need_str("a key of `format_map`")?;
                cx.inspect(key);
                args.named.push((key.clone(), value.clone()));
            }
            format(cx, text, &args)
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"], 2)?;
            replace(cx, text, old.need_str("the old text")?, new.need_str("the new text")?, &count)
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = args.bind(name, ["affix"], 1)?;
            remove_affix(cx, text, affix.need_str("an affix")?, name == "removeprefix")
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = args.bind(name, ["width", "fillchar"], 1)?;
            let fill = fill.given().cloned().unwrap_or_else(|| Val::own(if name == "zfill" { "0" } else { " " }));
            pad(cx, text, name, width.need_int("a width")?, fill.need_str("a fill character")?)
        }
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"], 0)?;
            let size = size.given().map_or(Ok(8), |size| size.need_int("a tab's size"))?;
            expand_tabs(cx, text, usize::try_from(size).unwrap_or(0))
        }
        _ => {
            let [] = args.bind(name, [], 0)?;
            cx.inspect(text);
            cx.work(text.len())?;
            match name {
                "lower" => lower(cx, text),
                "casefold" => Val::text(cx, text.converted(|text| text.to_lowercase().replace('ß', "ss"))),
                "upper" => upper(cx, text),
                "capitalize" => capitalize(cx, text),
                "title" => title(cx, text),
                "swapcase" => Val::text(
                    cx,
                    text.map_letters(|letter, to| match letter {
                        _ if letter.is_uppercase() => to.extend(letter.to_lowercase()),
                        _ => to.extend(letter.to_uppercase()),
                    }),
                ),
                _ => predicate(text.as_str(), name).map(Val::Bool),
            }
        }
    }
}

/// Whether all characters are of a kind.
fn predicate(text: &str, name: &str) -> Result<bool, Fault> {
    let all = |is: fn(char) -> bool| !text.is_empty() && text.chars().all(is);
    Ok(match name {
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => text.is_ascii(),
        "isdecimal" | "isdigit" => all(|letter| letter.is_ascii_digit() || (!letter.is_ascii() && is_decimal(letter))),
        "isnumeric" => all(char::is_numeric),
        "isspace" => all(is_space),
        "isprintable" => text.chars().all(|letter| !letter.is_control()),
        "isidentifier" => {
            all(|letter| letter == '_' || letter.is_alphanumeric())
                && !text.starts_with(|letter: char| letter.is_numeric())
        }
        "islower" => text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        "isupper" => text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
        "istitle" => is_title(text),
        _ => return fail(format!("a string has no method `{name}`")),
    })
}

/// Whether the character is a decimal digit of another script: ten of them follow each other by their codes.
fn is_decimal(letter: char) -> bool {
    const ZEROS: [u32; 12] = [0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xe50, 0xff10];
    ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&u32::from(letter)))
}

fn is_title(text: &str) -> bool {
    let (mut after_letter, mut found) = (false, false);
    for letter in text.chars() {
        if (letter.is_uppercase() && after_letter) || (letter.is_lowercase() && !after_letter) {
            return false;
        }
        after_letter = letter.is_uppercase() || letter.is_lowercase();
        found |= after_letter;
    }
    found
}

/// The text without white space, or without these characters, at its ends.
pub(in crate::builtin) fn strip(cx: &Context, text: &Str, chars: &Val, start: bool, end: bool) -> Result<Val, Fault> {
    cx.work(text.len())?;
    let Some(chars) = chars.present() else { return Val::text(cx, text.trimmed(start, end)) };
    let chars = chars.need_str("the characters to strip")?;
    cx.inspect(text);
    cx.inspect(chars);
    cx.work(text.len().saturating_mul(chars.len()) / 8)?;
    let source = text.as_str();
    let is_stripped = |letter: char| chars.as_str().contains(letter);
    let from = if start { source.len() - source.trim_start_matches(is_stripped).len() } else { 0 };
    let to = if end { source.trim_end_matches(is_stripped).len() } else { source.len() };
    Val::text(cx, text.part(from, to.max(from)))
}

pub(in crate::builtin) fn lower(cx: &Context, text: &Str) -> Result<Val, Fault> {
    cx.inspect(text);
    Val::text(cx, text.converted(str::to_lowercase))
}

pub(in crate::builtin) fn upper(cx: &Context, text: &Str) -> Result<Val, Fault> {
    cx.inspect(text);
    Val::text(cx, text.converted(str::to_uppercase))
}

pub(in crate::builtin) fn capitalize(cx: &Context, text: &Str) -> Result<Val, Fault> {
    cx.inspect(text);
    let mut is_first = true;
    Val::text(
        cx,
        text.map_letters(|letter, to| match std::mem::take(&mut is_first) {
            true => to.extend(letter.to_uppercase()),
            false => to.extend(letter.to_lowercase()),
        }),
    )
}

fn title(cx: &Context, text: &Str) -> Result<Val, Fault> {
    let mut after_letter = false;
    Val::text(
        cx,
        text.map_letters(|letter, to| {
            match after_letter {
                true => to.extend(letter.to_lowercase()),
                false => to.extend(letter.to_uppercase()),
            }
            after_letter = letter.is_uppercase() || letter.is_lowercase();
        }),
    )
}

/// The items with the separator between them. Items that are not strings are printed if `prints`, else refused.
pub(crate) fn join(cx: &Context, separator: &Str, items: &[Val], prints: bool) -> Result<Val, Fault> {
    let mut joined = Builder::default();
    for (place, item) in items.iter().enumerate() {
        cx.steps(1)?;
        if place > 0 {
            joined.add_str(separator);
        }
        match item {
            Val::Str(text) => joined.add_str(text),
            other if prints => joined.add_str(&crate::value::print(cx, other)?),
            other => return fail(format!("`join` needs strings, not a value of type `{}`", other.type_name())),
        }
        cx.write_part(joined.len())?;
    }
    Val::text(cx, joined.finish())
}

/// The text with `new` instead of `old`, at most `count` times.
pub(in crate::builtin) fn replace(cx: &Context, text: &Str, old: &Str, new: &Str, count: &Val) -> Result<Val, Fault> {
    cx.inspect(text);
    cx.inspect(old);
    cx.work(text.len())?;
    let count = match count.present() {
        None => usize::MAX,
        Some(count) => usize::try_from(count.need_int("a count")?).unwrap_or(usize::MAX),
    };
    let source = text.as_str();
    let places = source.match_indices(old.as_str()).take(count).count();
    if places == 0 {
        return Ok(Val::Str(text.clone()));
    }
    cx.hold(places.saturating_mul(new.len()).saturating_add(text.len()))?;
    let mut replaced = Builder::default();
    let mut at = 0;
    for (place, found) in source.match_indices(old.as_str()).take(count) {
        replaced.add_part(text, at, place);
        replaced.add_str(new);
        at = place + found.len();
    }
    replaced.add_part(text, at, text.len());
    Ok(Val::Str(replaced.finish()))
}

fn remove_affix(cx: &Context, text: &Str, affix: &Str, at_start: bool) -> Result<Val, Fault> {
    cx.inspect(text);
    cx.inspect(affix);
    let rest = match at_start {
        true => text.as_str().strip_prefix(affix.as_str()).map(|rest| (text.len() - rest.len(), text.len())),
        false => text.as_str().strip_suffix(affix.as_str()).map(|rest| (0, rest.len())),
    };
    match rest {
        Some((start, end)) => Val::text(cx, text.part(start, end)),
        None => Ok(Val::Str(text.clone())),
    }
}

/// The text, filled to a width.
pub(in crate::builtin) fn pad(cx: &Context, text: &Str, name: &str, width: i128, fill: &Str) -> Result<Val, Fault> {
    cx.inspect(text);
    if fill.count() != 1 {
        return fail("a fill character must be one character");
    }
    let len = text.count();
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let missing = width.saturating_sub(len);
    if missing == 0 {
        return Ok(Val::Str(text.clone()));
    }
    cx.hold(missing.saturating_mul(4))?;
    let (before, after) = match name {
        "ljust" => (0, missing),
        "center" => {
            let before = missing / 2 + (missing & width & 1);
            (before, missing - before)
        }
        _ => (missing, 0),
    };
    let mut padded = Builder::default();
    let signs = usize::from(name == "zfill" && text.as_str().starts_with(['+', '-']));
    padded.add_part(text, 0, signs);
    padded.add_str(&fill.repeated(before));
    padded.add_part(text, signs, text.len());
    padded.add_str(&fill.repeated(after));
    Val::text(cx, padded.finish())
}

fn expand_tabs(cx: &Context, text: &Str, size: usize) -> Result<Val, Fault> {
    cx.inspect(text);
    let tabs = text.as_str().matches('\t').count();
    cx.hold(tabs.saturating_mul(size).saturating_add(text.len()))?;
    let mut column = 0;
    let mut expanded = Builder::default();
    for (letter, mark) in text.letters() {
        let mark: Mark = mark.derived();
        match letter {
            '\t' if size == 0 => {}
            '\t' => {
                let spaces = size - column % size;
                expanded.add(&" ".repeat(spaces), mark);
                column += spaces;
            }
            _ => {
                expanded.letter(letter, mark);
                column = if matches!(letter, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    Val::text(cx, expanded.finish())
}
