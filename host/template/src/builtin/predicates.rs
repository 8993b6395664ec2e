//! The tests of the language.

use std::cmp::Ordering;

use super::{Test, filter};
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Val, arithmetic, compare, contains, equal, print};

/// The test of a name.
pub(crate) fn test(name: &str) -> Option<Test> {
    Some(match name {
        "boolean" => |_, value, args| plain(args, matches!(value, Val::Bool(_))),
        "callable" => |_, value, args| plain(args, is_callable(value)),
        "defined" => |_, value, args| plain(args, !value.is_undefined()),
        "divisibleby" => |_, value, args| {
            let [divisor] = args.bind("divisibleby", ["num"], 1)?;
            rest(value, &divisor).map(|rest| !rest.is_true())
        },
        "eq" | "equalto" | "==" => |cx, value, args| {
            let [other] = args.bind("eq", ["other"], 1)?;
            equal(cx, value, &other)
        },
        "escaped" => |_, value, args| plain(args, matches!(value, Val::Str(text) if text.is_markup())),
        "even" => |_, value, args| plain(args, !rest(value, &Val::Int(2))?.is_true()),
        "false" => |_, value, args| plain(args, matches!(value, Val::Bool(false))),
        "filter" => |cx, value, args| plain(args, is_name(cx, value, |name| filter(name).is_some())),
        "float" => |_, value, args| plain(args, matches!(value, Val::Float(_))),
        "ge" | ">=" => |cx, value, args| order(cx, value, args, Ordering::is_ge),
        "gt" | "greaterthan" | ">" => |cx, value, args| order(cx, value, args, Ordering::is_gt),
        "in" => |cx, value, args| {
            let [container] = args.bind("in", ["seq"], 1)?;
            contains(cx, &container, value)
        },
        "integer" => |_, value, args| plain(args, matches!(value, Val::Int(_))),
        "iterable" => |_, value, args| plain(args, is_iterable(value)),
        "le" | "<=" => |cx, value, args| order(cx, value, args, Ordering::is_le),
        "lower" => |cx, value, args| {
            let text = print(cx, value)?;
            cx.inspect(&text);
            let text = text.as_str();
            plain(args, text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase))
        },
        "lt" | "lessthan" | "<" => |cx, value, args| order(cx, value, args, Ordering::is_lt),
        "mapping" => |_, value, args| plain(args, matches!(value, Val::Dict(_))),
        "ne" | "!=" => |cx, value, args| {
            let [other] = args.bind("ne", ["other"], 1)?;
            Ok(!equal(cx, value, &other)?)
        },
        "none" => |_, value, args| plain(args, value.is_none()),
        "number" => |_, value, args| plain(args, matches!(value, Val::Int(_) | Val::Bool(_) | Val::Float(_))),
        "odd" => |cx, value, args| plain(args, equal(cx, &rest(value, &Val::Int(2))?, &Val::Int(1))?),
        "sameas" => |cx, value, args| {
            let [other] = args.bind("sameas", ["other"], 1)?;
            let is_same_type = value.type_name() == other.type_name();
            Ok(is_same_type && equal(cx, value, &other)?)
        },
        "sequence" => |_, value, args| plain(args, is_sequence(value)),
        "string" => |_, value, args| plain(args, matches!(value, Val::Str(_))),
        "test" => |cx, value, args| plain(args, is_name(cx, value, |name| test(name).is_some())),
        "true" => |_, value, args| plain(args, matches!(value, Val::Bool(true))),
        "undefined" => |_, value, args| plain(args, value.is_undefined()),
        "upper" => |cx, value, args| {
            let text = print(cx, value)?;
            cx.inspect(&text);
            let text = text.as_str();
            plain(args, text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase))
        },
        _ => return None,
    })
}

/// The result of a test without arguments.
fn plain(args: Args, result: bool) -> Result<bool, Fault> {
    let [] = args.bind("a test", [], 0)?;
    Ok(result)
}

fn rest(value: &Val, divisor: &Val) -> Result<Val, Fault> {
    value.check_defined()?;
    match arithmetic("%", value, divisor) {
        Some(rest) => rest,
        None => fail(format!("a value of type `{}` cannot be divided", value.type_name())),
    }
}

fn order(cx: &Context, value: &Val, args: Args, holds: fn(Ordering) -> bool) -> Result<bool, Fault> {
    let [other] = args.bind("a comparison", ["other"], 1)?;
    compare(cx, value, &other).map(holds)
}

fn is_name(cx: &Context, value: &Val, exists: fn(&str) -> bool) -> bool {
    let Val::Str(name) = value else { return false };
    cx.inspect(name);
    exists(name.as_str())
}

fn is_callable(value: &Val) -> bool {
    match value {
        Val::Function(..) | Val::Method(_) | Val::Undefined(_) => true,
        Val::Object(object) => object.is_callable(),
        _ => false,
    }
}

fn is_iterable(value: &Val) -> bool {
    match value {
        Val::Undefined(_)
        | Val::Str(_)
        | Val::List(_)
        | Val::Tuple(_)
        | Val::Dict(_)
        | Val::View(..)
        | Val::Range(_)
        | Val::Iter(_) => true,
        Val::Object(object) => object.len().is_some(),
        _ => false,
    }
}

fn is_sequence(value: &Val) -> bool {
    matches!(value, Val::Undefined(_) | Val::Str(_) | Val::List(_) | Val::Tuple(_) | Val::Dict(_) | Val::Range(_))
}
