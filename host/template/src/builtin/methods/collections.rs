//! Methods of lists and dictionaries.

use std::rc::Rc;

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Dict, Val, ViewKind, equal, items_of};

/// Calls a method of a list, tuple or range.
pub(super) fn of_list(cx: &Context, list: &Val, name: &str, args: Args) -> Result<Val, Fault> {
    let [wanted, start, stop] = args.bind(name, ["value", "start", "stop"], 1)?;
    let items = items_of(cx, list)?;
    let len = items.items.len();
    let bound = |bound: &Val, default: usize| match bound.given() {
        None => Ok(default),
        Some(bound) => {
            let bound = bound.need_int("an index")?;
            let bound = if bound < 0 { bound.saturating_add(len as i128).max(0) } else { bound };
            Ok(usize::try_from(bound).unwrap_or(len).min(len))
        }
    };
    let (start, stop) = (bound(&start, 0)?, bound(&stop, len)?);
    let mut count = 0;
    for (at, item) in items.items.iter().enumerate().take(stop).skip(start) {
        if equal(cx, item, &wanted)? {
            if name == "index" {
                return Ok(Val::int(at));
            }
            count += 1;
        }
    }
    if name == "index" { fail("a list does not contain the value that `index` looks for") } else { Ok(Val::int(count)) }
}

/// Calls a method of a dictionary.
pub(super) fn of_dict(cx: &Context, dict: &Rc<Dict>, name: &str, args: Args) -> Result<Val, Fault> {
    let view = match name {
        "get" => {
            if !args.named.is_empty() {
                return fail("`get` takes no named arguments");
            }
            let [key, default] = args.bind("get", ["key", "default"], 1)?;
            let default = if default.is_undefined() { Val::None } else { default };
            return Ok(dict.get(cx, &key)?.cloned().unwrap_or(default));
        }
        "copy" => return Ok(Val::Dict(Rc::clone(dict))),
        "fromkeys" => {
            let [keys, value] = args.bind("fromkeys", ["keys", "value"], 1)?;
            let value = value.given().cloned().unwrap_or(Val::None);
            let keys = items_of(cx, &keys)?;
            return Dict::make(cx, keys.items.iter().map(|key| (key.clone(), value.clone())).collect());
        }
        "keys" => ViewKind::Keys,
        "values" => ViewKind::Values,
        "items" => ViewKind::Items,
        _ => return fail(format!("a dictionary has no method `{name}`")),
    };
    let [] = args.bind(name, [], 0)?;
    Ok(Val::View(Rc::clone(dict), view))
}
