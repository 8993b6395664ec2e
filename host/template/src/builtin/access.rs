//! Attributes and items of values.

use std::rc::Rc;
use std::sync::Arc;

use super::method_names::has_method;
use crate::context::Context;
use crate::error::Fault;
use crate::value::Val;

/// The value of `value.name`: a method or attribute, else an item.
pub(crate) fn attribute(cx: &Context, value: &Val, name: &Arc<str>) -> Result<Val, Fault> {
    if let Some(found) = own_attribute(cx, value, name)? {
        return Ok(found);
    }
    let found = match value {
        Val::Dict(dict) => dict.get_own(cx, name).cloned(),
        _ => None,
    };
    Ok(found.unwrap_or_else(|| Val::Undefined(Some(Arc::clone(name)))))
}

/// A method or attribute, without items.
pub(super) fn own_attribute(cx: &Context, value: &Val, name: &Arc<str>) -> Result<Option<Val>, Fault> {
    value.check_defined()?;
    if has_method(value, name) {
        return Ok(Some(Val::Method(Rc::new((value.clone(), Arc::clone(name))))));
    }
    match value {
        Val::Object(object) => object.attribute(cx, name),
        Val::Tuple(seq) if seq.is_group => Ok(match &**name {
            "grouper" => seq.items.first().cloned(),
            "list" => seq.items.get(1).cloned(),
            _ => None,
        }),
        // Methods that change the value exist, but are not available.
        Val::Dict(_) if ["clear", "pop", "popitem", "setdefault", "update"].contains(&&**name) => {
            Ok(Some(Val::Undefined(Some(Arc::clone(name)))))
        }
        _ => Ok(None),
    }
}

/// The value of `value[key]`: an item, else an attribute.
pub(crate) fn item(cx: &Context, value: &Val, key: &Val) -> Result<Val, Fault> {
    value.check_defined()?;
    let found = match (value, key.as_int()) {
        (Val::Dict(dict), _) => dict.get(cx, key).ok().flatten().cloned(),
        (Val::List(seq) | Val::Tuple(seq), Some(index)) => {
            place(index, seq.items.len()).and_then(|at| seq.items.get(at).cloned())
        }
        (Val::Range(range), Some(index)) => place(index, range.len).map(|at| Val::Int(range.get(at))),
        (Val::Str(text), Some(index)) => {
            cx.inspect(text);
            cx.work(text.len())?;
            let at = place(index, text.count());
            let letter = at.and_then(|at| text.as_str().char_indices().nth(at));
            letter.map(|(at, letter)| Val::Str(text.part(at, at + letter.len_utf8())))
        }
        _ => None,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let Val::Str(name) = key else { return Ok(Val::Undefined(None)) };
    cx.inspect(name);
    let name = name.to_arc();
    Ok(own_attribute(cx, value, &name)?.unwrap_or(Val::Undefined(Some(name))))
}

/// The place of an index, which counts from the end if it is negative.
pub(super) fn place(index: i128, len: usize) -> Option<usize> {
    let from_start = if index < 0 { index.checked_add(len as i128)? } else { index };
    usize::try_from(from_start).ok().filter(|at| *at < len)
}
