//! The JSON object of a call, which all formats but Qwen3-Coder's share.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value as Json;

use super::{NewCall, WrittenCall};

/// The key under which a call holds its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentsKey {
    /// `arguments` alone.
    Arguments,
    /// `parameters` or `arguments`: models of one family write both.
    Either,
}

#[derive(Deserialize)]
struct Wire {
    name: String,
    arguments: Option<Json>,
    parameters: Option<Json>,
}

/// Splits text after the JSON value at its beginning; `None` if no complete value is there.
pub(super) fn split_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    text.split_at_checked(values.byte_offset())
}

/// Splits text after the JSON object or array at its beginning and the mark that closes it, so that a mark inside a
/// JSON string does not close it.
pub(super) fn split_closed<'t>(text: &'t str, close: &str) -> Option<(&'t str, &'t str)> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let (value, behind) = split_value(text)?;
    Some((value, behind.trim_start().strip_prefix(close)?))
}

/// Reads the text of one call.
pub(super) fn read_call(text: &str, key: ArgumentsKey) -> WrittenCall {
    let text = text.trim();
    let wire: Wire = match serde_json::from_str(text) {
        Ok(wire) => wire,
        Err(error) => {
            let form = "the call is not of the form {\"name\": …, \"arguments\": {…}}";
            return WrittenCall::malformed(text, format!("{form}: {error}"));
        }
    };
    let arguments = match key {
        ArgumentsKey::Arguments => wire.arguments,
        ArgumentsKey::Either => wire.parameters.or(wire.arguments),
    };
    match arguments.map_or_else(|| Ok("{}".to_owned()), read_arguments) {
        Ok(arguments) => WrittenCall::Sound { name: wire.name, arguments },
        Err(reason) => WrittenCall::malformed(text, reason),
    }
}

/// Reads the arguments of a call whose name stands outside the JSON; `whole` is the text of the call.
pub(super) fn read_named(name: &str, arguments: &str, whole: &str) -> WrittenCall {
    let name = name.trim();
    if name.is_empty() {
        return WrittenCall::malformed(whole, "the call has no function name");
    }
    let read = serde_json::from_str(arguments.trim())
        .map_err(|error| format!("the arguments of the call are not JSON: {error}"))
        .and_then(read_arguments);
    match read {
        Ok(arguments) => WrittenCall::Sound { name: name.to_owned(), arguments },
        Err(reason) => WrittenCall::malformed(whole, reason),
    }
}

/// The JSON text of an object of arguments, which some models write once more as a JSON string.
fn read_arguments(arguments: Json) -> Result<String, String> {
    let inner = match &arguments {
        Json::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    match inner.unwrap_or(arguments) {
        object @ Json::Object(_) => Ok(object.to_string()),
        _ => Err("the arguments of the call are not a JSON object".to_owned()),
    }
}

/// Whether a JSON value is meant as a call: an object with a name and arguments.
pub(super) fn is_call(value: &str) -> bool {
    let object: Result<serde_json::Map<String, Json>, _> = serde_json::from_str(value);
    object.is_ok_and(|object| {
        object.contains_key("name") && (object.contains_key("parameters") || object.contains_key("arguments"))
    })
}

/// Whether broken JSON at the beginning of `text` was meant as a call.
pub(super) fn resembles_call(text: &str) -> bool {
    let inside = text.strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|inside| inside.starts_with('"'))
        && text.contains("\"name\"")
        && (text.contains("\"parameters\"") || text.contains("\"arguments\""))
}

/// The JSON text of a call, in the spacing of Python's `json.dumps`; the arguments are taken over as they are.
pub(super) fn write_call(call: &NewCall<'_>, key: &str) -> String {
    let name = Json::from(call.name);
    format!("{{\"name\": {name}, \"{key}\": {}}}", call.arguments)
}
