//! Methods of strings that search.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::Str;
use crate::value::{Args, Val};

/// Calls a method that searches.
pub(super) fn call(cx: &Context, text: &Str, name: &str, args: Args) -> Result<Val, Fault> {
    let [wanted, start, stop] = args.bind(name, ["sub", "start", "end"], 1)?;
    cx.inspect(text);
    cx.work(text.len())?;
    let len = text.count();
    let bound = |bound: &Val, default: usize| match bound.present() {
        None => Ok(default),
        Some(bound) => {
            let bound = bound.need_int("an index")?;
            let bound = if bound < 0 { bound.saturating_add(len as i128).max(0) } else { bound };
            Ok(usize::try_from(bound).unwrap_or(usize::MAX))
        }
    };
    let (start, stop) = (bound(&start, 0)?, bound(&stop, len)?.min(len));
    let source = text.as_str();
    let is_inside = start <= stop;
    let byte = |at: usize| source.char_indices().nth(at).map_or(source.len(), |(byte, _)| byte);
    let (first, last) = match (start, stop == len) {
        (0, true) => (0, source.len()),
        _ if is_inside => (byte(start), byte(stop)),
        _ => (0, 0),
    };
    let part = source.get(first..last).unwrap_or_default();
    if let "startswith" | "endswith" = name {
        return Ok(Val::Bool(is_inside && has_affix(cx, part, &wanted, name)?));
    }
    let wanted = wanted.need_str("the text to look for")?;
    cx.inspect(wanted);
    let wanted = wanted.as_str();
    if name == "count" {
        return Ok(Val::int(if is_inside { part.matches(wanted).count() } else { 0 }));
    }
    let found = match name {
        _ if !is_inside => None,
        "rfind" | "rindex" => part.rfind(wanted),
        _ => part.find(wanted),
    };
    match found {
        Some(at) => Ok(Val::int(source.get(..first + at).unwrap_or_default().chars().count())),
        None if matches!(name, "index" | "rindex") => fail(format!("`{name}` does not find its text")),
        None => Ok(Val::Int(-1)),
    }
}

/// Whether the text starts or ends with another one, or with one of a tuple.
fn has_affix(cx: &Context, text: &str, wanted: &Val, name: &str) -> Result<bool, Fault> {
    let affixes = match wanted {
        Val::Tuple(seq) => seq.items.as_slice(),
        single => std::slice::from_ref(single),
    };
    for affix in affixes {
        let affix = affix.need_str("an affix")?;
        cx.inspect(affix);
        let found =
            if name == "startswith" { text.starts_with(affix.as_str()) } else { text.ends_with(affix.as_str()) };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
