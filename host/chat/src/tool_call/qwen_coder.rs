//! The format of Qwen3-Coder: XML-like tags with one untyped text for each parameter.
//!
//! Sources: the chat template of Qwen/Qwen3-Coder-30B-A3B-Instruct as kept in vLLM's
//! `examples/tool_chat_template_qwen3coder.jinja`, and vLLM's `tool_parsers/qwen3coder_tool_parser.py`. The model
//! writes strings as they are and other values as JSON or in Python's spelling (`True`, `None`); the function's schema
//! decides. Values are not escaped, so a value that holds the tags of a following parameter ends there.

use gymkhana_record::Function;
use serde_json::{Map, Value as Json};

use super::hermes::{CLOSE, OPEN};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The mark before a function's name.
pub(super) const FUNCTION: &str = "<function=";
/// The mark before a parameter's name.
pub(super) const PARAMETER: &str = "<parameter=";
const FUNCTION_END: &str = "</function>";
const PARAMETER_END: &str = "</parameter>";

pub(super) fn parse(text: &str, functions: &[Function]) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    // Models of this family sometimes leave out the opening mark.
    while let Some(start) = [rest.find(OPEN), rest.find(FUNCTION)].into_iter().flatten().min() {
        let (before, call) = rest.split_at(start);
        reply.message.push_str(before);
        let inside = call.strip_prefix(OPEN).unwrap_or(call);
        rest = match read_function(inside.trim_start(), functions) {
            Ok((call, behind)) => {
                reply.calls.push(call);
                behind.trim_start().strip_prefix(CLOSE).unwrap_or(behind)
            }
            Err(reason) => {
                let (lost, behind) = inside.split_once(CLOSE).unwrap_or((inside, ""));
                reply.calls.push(WrittenCall::malformed(lost, reason));
                behind
            }
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Reads `<function=NAME>…</function>` and gives the text behind it, or the reason why it is malformed.
fn read_function<'t>(text: &'t str, functions: &[Function]) -> Result<(WrittenCall, &'t str), String> {
    let head = text.strip_prefix(FUNCTION).ok_or_else(|| format!("the call does not begin with {FUNCTION}NAME>"))?;
    let (name, mut rest) = head.split_once('>').ok_or("the function's name is not closed by >")?;
    let name = name.trim();
    if name.is_empty() || name.contains(['<', '\n']) {
        return Err("the call has no function name".to_owned());
    }
    let schema = functions.iter().find(|function| function.name == name).map(|function| function.parameters.as_str());
    let schema: Option<Json> = schema.and_then(|schema| serde_json::from_str(schema).ok());
    let mut arguments = Map::new();
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix(FUNCTION_END) {
            let arguments = Json::Object(arguments).to_string();
            return Ok((WrittenCall::Sound { name: name.to_owned(), arguments }, behind));
        }
        let parameter = rest
            .strip_prefix(PARAMETER)
            .ok_or_else(|| format!("the call is not closed by {FUNCTION_END}, and {PARAMETER}NAME> does not follow"))?;
        let (key, value) = parameter.split_once('>').ok_or("a parameter's name is not closed by >")?;
        let (value, behind) =
            split_parameter(value).ok_or_else(|| format!("parameter `{key}` is not closed by {PARAMETER_END}"))?;
        if arguments.insert(key.to_owned(), read_value(value, key, schema.as_ref())).is_some() {
            return Err(format!("parameter `{key}` is given twice"));
        }
        rest = behind;
    }
}

/// The value of a parameter and the text behind it: it ends where another parameter or the function's end follows.
fn split_parameter(text: &str) -> Option<(&str, &str)> {
    let ends = text.match_indices(PARAMETER_END).map(|(at, mark)| (&text[..at], &text[at + mark.len()..]));
    let (value, behind) = ends.into_iter().find(|(_, behind)| {
        let next = behind.trim_start();
        next.starts_with(PARAMETER) || next.starts_with(FUNCTION_END)
    })?;
    // The template puts each value on lines of its own.
    let value = value.strip_prefix('\n').unwrap_or(value);
    Some((value.strip_suffix('\n').unwrap_or(value), behind))
}

/// The JSON value of a parameter. Text that does not fit the schema stays text, for the function to refuse.
fn read_value(text: &str, key: &str, schema: Option<&Json>) -> Json {
    let property = schema.and_then(|schema| schema.get("properties")?.get(key));
    let types: Vec<&str> = match property.and_then(|property| property.get("type")) {
        Some(Json::String(one)) => vec![one.as_str()],
        Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
        _ => vec![],
    };
    let trimmed = text.trim();
    let value = match trimmed {
        "True" => Some(Json::Bool(true)),
        "False" => Some(Json::Bool(false)),
        "None" => Some(Json::Null),
        other => serde_json::from_str(other).ok(),
    };
    let Some(value) = value else { return Json::from(text) };
    let fits = match &value {
        // A quoted text is a text with quotation marks.
        Json::String(_) => false,
        // Without a declared type, Python's spelling is more often a word than a value.
        _ if types.is_empty() => !matches!(trimmed, "True" | "False" | "None"),
        Json::Null => types.contains(&"null"),
        Json::Bool(_) => types.contains(&"boolean"),
        Json::Number(number) => {
            types.contains(&"number") || (types.contains(&"integer") && (number.is_i64() || number.is_u64()))
        }
        Json::Array(_) => types.contains(&"array"),
        Json::Object(_) => types.contains(&"object"),
    };
    if fits { value } else { Json::from(text) }
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let mut pieces = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let open = if index == 0 { format!("{OPEN}\n") } else { format!("\n{OPEN}\n") };
        pieces.push(CallPiece::frame(open));
        pieces.push(CallPiece::plain(write_function(call)));
        pieces.push(CallPiece::frame(format!("\n{CLOSE}")));
    }
    pieces
}

/// `<function=NAME>…</function>`. Arguments that are not a JSON object are written as they are, which no parser reads.
fn write_function(call: &NewCall<'_>) -> String {
    let mut text = format!("{FUNCTION}{}>\n", call.name);
    match serde_json::from_str::<Map<String, Json>>(call.arguments) {
        Ok(arguments) => {
            for (key, value) in &arguments {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text.push_str(&format!("{PARAMETER}{key}>\n{value}\n{PARAMETER_END}\n"));
            }
        }
        Err(_) => text.push_str(&format!("{}\n", call.arguments)),
    }
    text + FUNCTION_END
}
