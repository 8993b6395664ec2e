//! Methods of values, those of Python that change nothing.

mod collections;
mod search;
mod split;
mod text;

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Val};

pub(super) use split::lines;
pub(super) use text::join;
pub(super) use text::{capitalize, lower, pad, replace, strip, upper};

/// Calls a method of a value.
pub(crate) fn call_method(cx: &Context, value: &Val, name: &str, args: Args) -> Result<Val, Fault> {
    cx.steps(1)?;
    match value {
        Val::Str(text) => text::call(cx, text, name, args),
        Val::List(_) | Val::Tuple(_) | Val::Range(_) => collections::of_list(cx, value, name, args),
        Val::Dict(dict) => collections::of_dict(cx, dict, name, args),
        Val::Float(number) if name == "is_integer" => Ok(Val::Bool(number.fract() == 0.0)),
        Val::Object(object) => object.call_method(cx, name, args),
        other => fail(format!("a value of type `{}` has no method `{name}`", other.type_name())),
    }
}
