//! The JSON object of a call, which most formats share: its name, its arguments, and lists of such objects.

pub(super) mod exact;

use serde::de::IgnoredAny;
use serde_json::Value as Json;

use self::exact::{Entries, compact};
use super::{NewCall, WrittenCall};

/// The keys of a call's name and arguments. Those of the common formats are read as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallKeys<'k> {
    /// The key of the function's name.
    pub name: &'k str,
    /// The key of the arguments.
    pub arguments: &'k str,
}

/// `name` and `arguments`.
pub(super) const ARGUMENTS: CallKeys<'static> = CallKeys { name: "name", arguments: "arguments" };
/// `name` and `parameters`.
pub(super) const PARAMETERS: CallKeys<'static> = CallKeys { name: "name", arguments: "parameters" };

/// Keys beside the name and the arguments that carry nothing for the function.
const HARMLESS: [&str; 6] = ["id", "type", "index", "call_id", "tool_call_id", "recipient_name"];

/// Splits text after the JSON value at its beginning; `None` if no complete value is there.
pub(super) fn split_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    text.split_at_checked(values.byte_offset())
}

/// Splits text after the arguments of a call whose name stands in front of them: an object, a text, null, or nothing
/// before the mark that ends the call.
pub(super) fn split_arguments<'t>(text: &'t str, ends: &[&str]) -> Option<(&'t str, &'t str)> {
    let text = text.trim_start();
    if text.is_empty() || ends.iter().any(|end| text.starts_with(end)) {
        return Some(("", text));
    }
    // A word of JSON needs whitespace behind it, which marks are not.
    if text.starts_with("null") { text.split_at_checked("null".len()) } else { split_value(text) }
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
pub(super) fn read_call(text: &str, keys: CallKeys<'_>) -> WrittenCall {
    let text = text.trim();
    match sound_call(text, keys) {
        Ok((name, arguments)) => WrittenCall::Sound { name, arguments },
        Err(reason) => WrittenCall::malformed(text, reason),
    }
}

/// The name and the arguments of a call, or the reason why it is malformed.
fn sound_call(text: &str, keys: CallKeys<'_>) -> Result<(String, String), String> {
    let form = |error: String| {
        let CallKeys { name, arguments } = keys;
        format!("the call is not of the form {{\"{name}\": …, \"{arguments}\": {{…}}}}: {error}")
    };
    let mut entries = Entries::of(text).map_err(|error| form(error.to_string()))?;
    if let Some(function) = nested_function(&entries, keys) {
        entries = function;
    }
    let name = [keys.name, "name"].into_iter().find_map(|key| entries.get(key));
    let name = name.ok_or_else(|| form(format!("missing field `{}`", keys.name)))?;
    let name: String = serde_json::from_str(name).map_err(|_| format!("the value of `{}` is not a text", keys.name))?;
    if name.trim().is_empty() {
        return Err("the call has no function name".to_owned());
    }
    Ok((name, arguments_of(&entries, keys)?))
}

/// The object under `function`, as the API of OpenAI nests calls.
fn nested_function<'t>(entries: &Entries<'t>, keys: CallKeys<'_>) -> Option<Entries<'t>> {
    let named = entries.get(keys.name).is_some() || entries.get("name").is_some();
    if named { None } else { Entries::of(entries.get("function")?).ok() }
}

/// The arguments under the format's key or a common one.
fn arguments_of(entries: &Entries<'_>, keys: CallKeys<'_>) -> Result<String, String> {
    let known = |key: &str| [keys.arguments, ARGUMENTS.arguments, PARAMETERS.arguments].contains(&key);
    let mut found: Option<(&str, String)> = None;
    for (key, value) in entries.0.iter().filter(|(key, _)| known(key)) {
        let arguments = read_arguments(value.get())?;
        match &found {
            None => found = Some((key, arguments)),
            Some((_, earlier)) if earlier == "{}" => found = Some((key, arguments)),
            Some((other, earlier)) if arguments != "{}" && arguments != *earlier => {
                return Err(format!("the call has arguments under `{other}` and under `{key}`"));
            }
            Some(_) => {}
        }
    }
    if let Some((_, arguments)) = found {
        return Ok(arguments);
    }
    let harmless = |key: &str| key == keys.name || key == ARGUMENTS.name || HARMLESS.contains(&key);
    match entries.0.iter().find(|(key, _)| !harmless(key)) {
        Some((key, _)) => {
            Err(format!("the call has the unknown key `{key}`; arguments belong under `{}`", keys.arguments))
        }
        None => Ok("{}".to_owned()),
    }
}

/// Reads a call of the form `{"NAME": {…}}`.
pub(super) fn read_single_key(text: &str) -> WrittenCall {
    let text = text.trim();
    let entries = match Entries::of(text) {
        Ok(entries) => entries,
        Err(error) => {
            return WrittenCall::malformed(text, format!("the call is not of the form {{\"NAME\": {{…}}}}: {error}"));
        }
    };
    match &entries.0[..] {
        [(name, arguments)] => read_named(name, arguments.get(), text),
        [] => WrittenCall::malformed(text, "the call has no function name"),
        _ if entries.get("name").is_some() => read_call(text, ARGUMENTS),
        _ => WrittenCall::malformed(text, "the call has several keys; its only key is the function's name"),
    }
}

/// Reads the arguments of a call whose name stands outside the JSON; `whole` is the text of the call.
pub(super) fn read_named(name: &str, arguments: &str, whole: &str) -> WrittenCall {
    let name = name.trim();
    if name.is_empty() {
        return WrittenCall::malformed(whole, "the call has no function name");
    }
    match read_arguments(arguments) {
        Ok(arguments) => WrittenCall::Sound { name: name.to_owned(), arguments },
        Err(reason) => WrittenCall::malformed(whole, reason),
    }
}

/// The compact JSON text of an object of arguments. No text and null mean no arguments. Some models write the object
/// once more as a JSON string.
fn read_arguments(text: &str) -> Result<String, String> {
    let text = text.trim();
    let not_json = |error: String| format!("the arguments of the call are not JSON: {error}");
    let not_object = || "the arguments of the call are not a JSON object".to_owned();
    match text.bytes().next() {
        None => Ok("{}".to_owned()),
        Some(b'{') => compact(text).map_err(not_json),
        Some(b'"') => {
            let inner: String = serde_json::from_str(text).map_err(|error| not_json(error.to_string()))?;
            match inner.trim() {
                "" => Ok("{}".to_owned()),
                inner if inner.starts_with('{') => compact(inner).map_err(not_json),
                _ => Err(not_object()),
            }
        }
        Some(_) => match compact(text).map_err(not_json)?.as_str() {
            "null" => Ok("{}".to_owned()),
            _ => Err(not_object()),
        },
    }
}

/// Whether a JSON value is meant as a call: an object with a name and arguments.
pub(super) fn is_call(value: &str) -> bool {
    Entries::of(value.trim()).is_ok_and(|entries| {
        let has = |key: &str| entries.get(key).is_some();
        has("name") && (has("parameters") || has("arguments"))
    })
}

/// Whether broken JSON at the beginning of `text` was meant as a call or as a list of calls.
pub(super) fn resembles_call(text: &str) -> bool {
    let object = text.strip_prefix('[').map_or(text, str::trim_start);
    let inside = object.strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|inside| inside.starts_with('"'))
        && text.contains("\"name\"")
        && (text.contains("\"parameters\"") || text.contains("\"arguments\""))
}

/// The JSON text of a call, in the spacing of Python's `json.dumps`; the arguments are taken over as they are.
pub(super) fn write_call(call: &NewCall<'_>, keys: CallKeys<'_>) -> String {
    let name = Json::from(call.name);
    format!("{{{}: {name}, {}: {}}}", Json::from(keys.name), Json::from(keys.arguments), call.arguments)
}
