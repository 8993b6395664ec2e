//! Filters that make strings.

use super::soft;
use crate::builtin::methods::{self, lines};
use crate::builtin::percent;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Str};
use crate::value::{Args, Dict, Val, print};

pub(super) fn string(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("string", [], 0)?;
    Ok(Val::Str(print(cx, value)?))
}

/// The result of a method: HTML if the value is.
fn keep(value: &Val, result: Val) -> Result<Val, Fault> {
    match (value, result) {
        (Val::Str(text), Val::Str(result)) => Ok(Val::Str(result.with_markup(text.is_markup()))),
        (_, result) => Ok(result),
    }
}

pub(super) fn lower(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("lower", [], 0)?;
    keep(value, methods::lower(cx, &soft(cx, value)?)?)
}

pub(super) fn upper(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("upper", [], 0)?;
    keep(value, methods::upper(cx, &soft(cx, value)?)?)
}

pub(super) fn capitalize(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("capitalize", [], 0)?;
    keep(value, methods::capitalize(cx, &soft(cx, value)?)?)
}

/// Words begin with a capital letter.
pub(super) fn title(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("title", [], 0)?;
    let text = soft(cx, value)?;
    cx.inspect(&text);
    let mut is_first = true;
    Val::text(
        cx,
        text.map_letters(|letter, to| {
            let starts_word = std::mem::take(&mut is_first);
            is_first = crate::text::is_space(letter) || "-({[<".contains(letter);
            match starts_word && !is_first {
                true => to.extend(letter.to_uppercase()),
                false => to.extend(letter.to_lowercase()),
            }
        }),
    )
}

pub(super) fn center(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [width] = args.bind("center", ["width"], 0)?;
    let width = width.given().map_or(Ok(80), |width| width.need_int("a width"))?;
    methods::pad(cx, &soft(cx, value)?, "center", width, &Str::own(" "))
}

pub(super) fn trim(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [chars] = args.bind("trim", ["chars"], 0)?;
    keep(value, methods::strip(cx, &soft(cx, value)?, &chars, true, true)?)
}

pub(super) fn replace(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [old, new, count] = args.bind("replace", ["old", "new", "count"], 2)?;
    methods::replace(cx, &soft(cx, value)?, &soft(cx, &old)?, &soft(cx, &new)?, &count)
}

/// The operator `%` with the arguments.
pub(super) fn format(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let text = soft(cx, value)?;
    if args.named.is_empty() {
        return percent(cx, &text, &Val::tuple(cx, args.positional)?);
    }
    if !args.positional.is_empty() {
        return fail("`format` takes arguments with names or without them, not both");
    }
    let entries = args.named.into_iter().map(|(name, value)| (Val::Str(name), value)).collect();
    percent(cx, &text, &Dict::make(cx, entries)?)
}

/// Lines after the first one, or all of them, begin with more space.
pub(super) fn indent(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"], 0)?;
    let indent = match width.given() {
        None => Str::own("    "),
        Some(Val::Str(text)) => text.clone(),
        Some(width) => {
            let width = usize::try_from(width.need_int("the width of `indent`")?).unwrap_or(0);
            cx.hold(width)?;
            Str::own(&" ".repeat(width))
        }
    };
    let text = value.need_str("the value of `indent`")?;
    cx.inspect(text);
    let mut with_end = Builder::default();
    with_end.add_str(text);
    with_end.own("\n");
    let text = with_end.finish();
    let spans = lines(text.as_str(), false);
    cx.hold(spans.len().saturating_mul(indent.len()).saturating_add(text.len()))?;
    let mut to = Builder::default();
    if first.is_true() {
        to.add_str(&indent);
    }
    let ends = spans.iter().skip(1).map(|(start, _)| *start);
    for (place, ((start, end), next)) in spans.iter().zip(ends.chain([text.len()])).enumerate() {
        if place > 0 && (blank.is_true() || start < end) {
            to.add_str(&indent);
        }
        to.add_part(&text, *start, *end);
        if place + 1 < spans.len() {
            // The end of a line becomes `\n`, and keeps its author.
            to.add_str(&text.part(*end, next).remade("\n"));
        }
    }
    Val::text(cx, to.finish())
}
