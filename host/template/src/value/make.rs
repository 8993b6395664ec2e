//! Construction of a rendering's variables.

use std::rc::Rc;

use serde_json::Value as Json;

use super::{Dict, Seq, Val};
use crate::text::Str;

/// A variable of a rendering.
#[derive(Clone)]
pub struct Value(pub(crate) Val);

impl std::fmt::Debug for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Value({})", self.0.type_name())
    }
}

impl Value {
    /// Text from outside, with the caller's number of its source.
    pub fn outside(text: &str, source: u32) -> Self {
        Self(Val::Str(Str::outside(text, source)))
    }

    /// Text that counts as the template's own.
    pub fn own(text: &str) -> Self {
        Self(Val::Str(Str::own(text)))
    }

    /// Python's `None`.
    pub fn none() -> Self {
        Self(Val::None)
    }

    /// A value that is not defined.
    pub fn undefined() -> Self {
        Self(Val::Undefined(None))
    }

    /// A boolean.
    pub fn bool(value: bool) -> Self {
        Self(Val::Bool(value))
    }

    /// A whole number.
    pub fn int(value: i64) -> Self {
        Self(Val::Int(value.into()))
    }

    /// A number.
    pub fn float(value: f64) -> Self {
        Self(Val::Float(value))
    }

    /// A list.
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self(Val::List(Rc::new(Seq::new(items.into_iter().map(|item| item.0).collect()))))
    }

    /// A dictionary with keys of the template. Of equal keys, the first one is found.
    pub fn dict<'a>(entries: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::dict_of(entries.into_iter().map(|(key, value)| (Self::own(key), value)))
    }

    /// A dictionary whose keys are strings, such as [`Value::outside`].
    pub fn dict_of(entries: impl IntoIterator<Item = (Self, Self)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.0, value.0)).collect();
        Self(Val::Dict(Rc::new(Dict::of_unique(entries))))
    }

    /// A JSON value, whose strings and keys count as the template's own.
    pub fn from_json(json: &Json) -> Self {
        Self(convert(json, &mut |text| Str::own(text)))
    }

    /// A JSON value, whose strings and keys come from outside; `source` gives the number for each text.
    pub fn from_json_outside(json: &Json, mut source: impl FnMut(&str) -> u32) -> Self {
        Self(convert(json, &mut |text| Str::outside(text, source(text))))
    }

    /// As [`Value::from_json_outside`]; a text without a number counts as the template's own.
    pub fn from_json_with(json: &Json, mut source: impl FnMut(&str) -> Option<u32>) -> Self {
        Self(convert(json, &mut |text| match source(text) {
            Some(source) => Str::outside(text, source),
            None => Str::own(text),
        }))
    }
}

fn convert(json: &Json, text_of: &mut dyn FnMut(&str) -> Str) -> Val {
    match json {
        Json::Null => Val::None,
        Json::Bool(value) => Val::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Val::Int(number.into()),
            (None, Some(number)) => Val::Int(number.into()),
            (None, None) => Val::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Val::Str(text_of(text)),
        Json::Array(items) => Val::List(Rc::new(Seq::new(items.iter().map(|item| convert(item, text_of)).collect()))),
        Json::Object(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| (Val::Str(text_of(key)), convert(value, text_of))).collect();
            Val::Dict(Rc::new(Dict::of_unique(entries)))
        }
    }
}
