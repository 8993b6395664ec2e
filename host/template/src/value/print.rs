//! Values as text: what Python's `str` and `repr` give.

use super::{Val, ViewKind, float_text};
use crate::context::Context;
use crate::error::Fault;
use crate::text::{Builder, Mark, Str};

/// The text of a value when it is printed.
pub(crate) fn print(cx: &Context, value: &Val) -> Result<Str, Fault> {
    match value {
        Val::Str(text) => Ok(text.clone()),
        Val::Undefined(_) => Ok(Str::own("")),
        other => repr(cx, other),
    }
}

/// The text of a value inside of a collection.
pub(crate) fn repr(cx: &Context, value: &Val) -> Result<Str, Fault> {
    let mut to = Builder::default();
    write_repr(cx, value, &mut to)?;
    Ok(to.finish())
}

/// Appends the text of a value inside of a collection.
pub(crate) fn write_repr(cx: &Context, value: &Val, to: &mut Builder) -> Result<(), Fault> {
    cx.steps(1)?;
    match value {
        Val::Undefined(_) => to.own("Undefined"),
        Val::None => to.own("None"),
        Val::Bool(value) => to.own(if *value { "True" } else { "False" }),
        Val::Int(number) => to.own(&number.to_string()),
        Val::Float(number) => to.own(&float_text(*number)),
        Val::Str(text) => quote(cx, text, to)?,
        Val::List(seq) => sequence(cx, &seq.items, ("[", "]"), to)?,
        Val::Tuple(seq) if seq.items.len() == 1 => sequence(cx, &seq.items, ("(", ",)"), to)?,
        Val::Tuple(seq) => sequence(cx, &seq.items, ("(", ")"), to)?,
        Val::Dict(dict) => {
            to.own("{");
            for (place, (key, value)) in dict.entries().iter().enumerate() {
                to.own(if place > 0 { ", " } else { "" });
                write_repr(cx, key, to)?;
                to.own(": ");
                write_repr(cx, value, to)?;
            }
            to.own("}");
        }
        Val::View(dict, kind) => {
            to.own(kind.name());
            let entries = dict.entries().iter();
            let items: Vec<Val> = match kind {
                ViewKind::Keys => entries.map(|(key, _)| key.clone()).collect(),
                ViewKind::Values => entries.map(|(_, value)| value.clone()).collect(),
                ViewKind::Items => entries
                    .map(|(key, value)| Val::tuple(cx, vec![key.clone(), value.clone()]))
                    .collect::<Result<_, _>>()?,
            };
            sequence(cx, &items, ("([", "])"), to)?;
        }
        Val::Range(range) => {
            let stop = i128::from(range.start) + i128::from(range.step) * range.len as i128;
            to.own(&match range.step {
                1 => format!("range({}, {stop})", range.start),
                step => format!("range({}, {stop}, {step})", range.start),
            });
        }
        Val::Iter(_) => to.own("<generator object>"),
        Val::Function(name, _) => to.own(&format!("<function {name}>")),
        Val::Method(method) => to.own(&format!("<built-in method {}>", method.1)),
        Val::Object(object) => to.own(&format!("<{}>", object.type_name())),
    }
    cx.hold(0)
}

fn sequence(cx: &Context, items: &[Val], around: (&str, &str), to: &mut Builder) -> Result<(), Fault> {
    to.own(around.0);
    for (place, item) in items.iter().enumerate() {
        to.own(if place > 0 { ", " } else { "" });
        write_repr(cx, item, to)?;
    }
    to.own(around.1);
    Ok(())
}

/// Appends a string in quotes; escapes come from the source of the character.
fn quote(cx: &Context, text: &Str, to: &mut Builder) -> Result<(), Fault> {
    cx.inspect(text);
    cx.hold(text.len())?;
    let double = text.as_str().contains('\'') && !text.as_str().contains('"');
    let mark = if double { '"' } else { '\'' };
    to.letter(mark, Mark::OWN);
    to.add_str(&text.map_letters(|letter, to| escape(letter, mark, to)));
    to.letter(mark, Mark::OWN);
    Ok(())
}

fn escape(letter: char, quote: char, to: &mut String) {
    match letter {
        '\n' => to.push_str("\\n"),
        '\r' => to.push_str("\\r"),
        '\t' => to.push_str("\\t"),
        '\\' => to.push_str("\\\\"),
        _ if letter == quote => to.extend(['\\', letter]),
        _ if is_printable(letter) => to.push(letter),
        _ => match u32::from(letter) {
            code @ ..0x100 => to.push_str(&format!("\\x{code:02x}")),
            code @ ..0x1_0000 => to.push_str(&format!("\\u{code:04x}")),
            code => to.push_str(&format!("\\U{code:08x}")),
        },
    }
}

/// Whether Python's `repr` prints the character as it is.
fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return (' '..='~').contains(&letter);
    }
    // Only the first character of a text is escaped for being a combining mark.
    let mut after = String::from("a");
    after.push(letter);
    after.escape_debug().nth(1) == Some(letter)
}
