//! The method `format` of strings.

use std::sync::Arc;

use super::access::{item, own_attribute};
use super::spec::Spec;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Str};
use crate::value::{Args, Val, print, repr};

/// The text with its fields replaced by arguments.
pub(super) fn format(cx: &Context, format: &Str, args: &Args) -> Result<Val, Fault> {
    cx.inspect(format);
    let mut to = Builder::default();
    write(cx, format, args, &mut Some(0), 0, &mut to)?;
    Val::text(cx, to.finish())
}

/// The next number of a field without a name; nothing after a numbered field.
type NextNumber = Option<usize>;

fn write(
    cx: &Context,
    format: &Str,
    args: &Args,
    next: &mut NextNumber,
    level: usize,
    to: &mut Builder,
) -> Result<(), Fault> {
    let source = format.as_str();
    let mut at = 0;
    while let Some(found) = source.get(at..).and_then(|rest| rest.find(['{', '}'])) {
        let brace = at + found;
        to.add_part(format, at, brace);
        let rest = source.get(brace..).unwrap_or_default();
        if rest.starts_with("{{") || rest.starts_with("}}") {
            to.add_part(format, brace, brace + 1);
            at = brace + 2;
            continue;
        }
        let Some(end) = field_end(rest) else { return fail("a format has a single brace") };
        if level > 1 {
            return fail("the fields of a format are nested too deeply");
        }
        let field = format.part(brace + 1, brace + end);
        write_field(cx, &field, args, next, level, to)?;
        at = brace + end + 1;
        cx.steps(1)?;
    }
    to.add_part(format, at, format.len());
    Ok(())
}

/// Offset of the brace that closes the one at the start.
fn field_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return (depth == 1).then_some(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Appends the value of `name!conversion:spec`.
fn write_field(
    cx: &Context,
    field: &Str,
    args: &Args,
    next: &mut NextNumber,
    level: usize,
    to: &mut Builder,
) -> Result<(), Fault> {
    let field_text = field.as_str();
    let name_end = field_text.find(['!', ':']).unwrap_or(field.len());
    let (name, rest) = field_text.split_at(name_end);
    let (conversion, spec) = match rest.strip_prefix('!') {
        Some(rest) => {
            let end = rest.find(':').unwrap_or(rest.len());
            let (conversion, spec) = rest.split_at(end);
            (Some(conversion), spec)
        }
        None => (None, rest),
    };
    let value = value_of(cx, name, args, next)?;
    let value = match conversion {
        None => value,
        Some("s") => Val::Str(print(cx, &value)?),
        Some("r" | "a") => Val::Str(repr(cx, &value)?),
        Some(other) => return fail(format!("a format has no conversion `{other}`")),
    };
    let mut spec_text = Builder::default();
    let spec = spec.strip_prefix(':').unwrap_or_default();
    write(cx, &field.part(field.len() - spec.len(), field.len()), args, next, level + 1, &mut spec_text)?;
    let spec_text = spec_text.finish();
    cx.inspect(&spec_text);
    if spec_text.is_empty() {
        to.add_str(&print(cx, &value)?);
        return Ok(());
    }
    let text = Spec::parse(spec_text.as_str())?.format(cx, &value)?;
    to.add_str(&text.shaped_by(&spec_text));
    Ok(())
}

/// The argument of a field's name, with attributes and items behind it.
fn value_of(cx: &Context, name: &str, args: &Args, next: &mut NextNumber) -> Result<Val, Fault> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let missing = || Fault::Failed(format!("a format has no argument `{first}`"));
    let mut value = if first.is_empty() {
        let Some(number) = next.as_mut() else { return fail("a format mixes numbered fields and others") };
        *number += 1;
        args.positional.get(*number - 1).cloned().ok_or_else(missing)?
    } else if let Ok(number) = first.parse::<usize>() {
        if next.is_some_and(|next| next > 0) {
            return fail("a format mixes numbered fields and others");
        }
        *next = None;
        args.positional.get(number).cloned().ok_or_else(missing)?
    } else {
        let named = args.named.iter().find(|(known, _)| known.as_str() == first);
        named.map(|(_, value)| value.clone()).ok_or_else(missing)?
    };
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            let found = own_attribute(cx, &value, &Arc::from(name))?;
            value = found.ok_or_else(|| Fault::Failed(format!("a value has no attribute `{name}`")))?;
            rest = tail;
        } else {
            let inner = rest.strip_prefix('[').unwrap_or(rest);
            let Some((key, tail)) = inner.split_once(']') else { return fail("a format has a single bracket") };
            let key = key.parse().map_or_else(|_| Val::own(key), Val::Int);
            value = item(cx, &value, &key)?;
            value.check_defined()?;
            rest = tail;
        }
    }
    Ok(value)
}
