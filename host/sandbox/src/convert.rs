//! Conversion between the host's records and the guest's arguments and results.
//!
//! Arguments borrow from records: only lists are allocated. Results are moved without copying their texts.

use gymkhana_record::{Call, Content, Media, NamedValue, Part, Value};

use crate::bindings::gymkhana::plugin::types;

/// Content as an argument. Content with one part, the common case, needs no list.
pub(crate) enum ContentParam<'a> {
    One([types::PartParam<'a>; 1]),
    Many(Vec<types::PartParam<'a>>),
}

impl<'a> ContentParam<'a> {
    pub fn of(content: &'a [Part]) -> Self {
        match content {
            [one] => Self::One([part(one)]),
            many => Self::Many(many.iter().map(part).collect()),
        }
    }

    /// One part of text.
    pub fn of_text(text: &'a str) -> Self {
        Self::One([types::PartParam::Text(text)])
    }

    pub fn as_slice(&self) -> &[types::PartParam<'a>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

fn part(part: &Part) -> types::PartParam<'_> {
    match part {
        Part::Text(text) => types::PartParam::Text(text),
        Part::Image(media) => types::PartParam::Image(media_param(media)),
        Part::Audio(media) => types::PartParam::Audio(media_param(media)),
        Part::Video(media) => types::PartParam::Video(media_param(media)),
        Part::Other(media) => types::PartParam::Other(media_param(media)),
    }
}

fn media_param(media: &Media) -> types::MediaParam<'_> {
    types::MediaParam { mime: &media.mime, bytes: &media.bytes }
}

pub(crate) fn call_param(call: &Call) -> types::CallParam<'_> {
    types::CallParam { id: &call.id, name: &call.name, arguments: &call.arguments }
}

pub(crate) fn named_value_params(values: &[NamedValue]) -> Vec<types::NamedValueParam<'_>> {
    values.iter().map(|named| types::NamedValueParam { name: &named.name, value: value_param(&named.value) }).collect()
}

fn value_param(value: &Value) -> types::ValueParam<'_> {
    match value {
        Value::Flag(flag) => types::ValueParam::Flag(*flag),
        Value::Integer(integer) => types::ValueParam::Integer(*integer),
        Value::Number(number) => types::ValueParam::Number(*number),
        Value::Text(text) => types::ValueParam::Text(text),
        Value::Bytes(bytes) => types::ValueParam::Bytes(bytes),
        Value::Other(json) => types::ValueParam::Other(json),
    }
}

pub(crate) fn content(parts: Vec<types::PartResult>) -> Content {
    parts
        .into_iter()
        .map(|part| match part {
            types::PartResult::Text(text) => Part::Text(text),
            types::PartResult::Image(result) => Part::Image(media(result)),
            types::PartResult::Audio(result) => Part::Audio(media(result)),
            types::PartResult::Video(result) => Part::Video(media(result)),
            types::PartResult::Other(result) => Part::Other(media(result)),
        })
        .collect()
}

fn media(media: types::MediaResult) -> Media {
    Media { mime: media.mime, bytes: media.bytes }
}

pub(crate) fn calls(calls: Vec<types::CallResult>) -> Vec<Call> {
    calls.into_iter().map(|call| Call { id: call.id, name: call.name, arguments: call.arguments }).collect()
}

/// Converts named values; an error if one is NaN or infinite.
pub(crate) fn named_values(values: Vec<types::NamedValueResult>) -> Result<Vec<NamedValue>, String> {
    values
        .into_iter()
        .map(|named| match value(named.value) {
            Some(value) => Ok(NamedValue { name: named.name, value }),
            None => Err(format!("the value of `{}` is NaN or infinite", named.name)),
        })
        .collect()
}

/// Converts a value; `None` if it is NaN or infinite.
pub(crate) fn value(value: types::ValueResult) -> Option<Value> {
    Some(match value {
        types::ValueResult::Flag(flag) => Value::Flag(flag),
        types::ValueResult::Integer(integer) => Value::Integer(integer),
        types::ValueResult::Number(number) if number.is_finite() => Value::Number(number),
        types::ValueResult::Number(_) => return None,
        types::ValueResult::Text(text) => Value::Text(text),
        types::ValueResult::Bytes(bytes) => Value::Bytes(bytes),
        types::ValueResult::Other(json) => Value::Other(json),
    })
}
