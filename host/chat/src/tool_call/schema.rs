//! Values of parameters that a format writes as untyped text: the function's JSON Schema decides what they are.

use gymkhana_record::Function;
use serde_json::Value as Json;

use super::json::exact::{compact, push_string};
use super::python::literal;

/// Most references and alternatives that are followed for a parameter: schemas may refer to themselves.
const MAX_STEPS: usize = 64;

/// The schema of a function's parameters.
#[derive(Debug, Clone, Default)]
pub(super) struct Schema(Option<Json>);

impl Schema {
    /// The schema of the function of this name; empty if it is unknown.
    pub(super) fn of(name: &str, functions: &[Function]) -> Self {
        let function = functions.iter().find(|function| function.name == name);
        Self(function.and_then(|function| serde_json::from_str(&function.parameters).ok()))
    }

    /// Whether the schema names the parameter; `None` without parameters.
    pub(super) fn names(&self, key: &str) -> Option<bool> {
        let properties = self.0.as_ref()?.get("properties")?.as_object()?;
        if properties.is_empty() { None } else { Some(properties.contains_key(key)) }
    }

    /// JSON text of a parameter's value. Text that does not fit the schema stays text, for the function to refuse.
    pub(super) fn read(&self, key: &str, text: &str) -> String {
        let types = self.types(key);
        let trimmed = text.trim();
        let value = match trimmed {
            "True" => Some("true".to_owned()),
            "False" => Some("false".to_owned()),
            "None" => Some("null".to_owned()),
            other => compact(other).ok().or_else(|| python_value(other, &types)),
        };
        // Without a declared type, Python's spelling is more often a word than a value.
        let word = types.is_empty() && matches!(trimmed, "True" | "False" | "None");
        value.filter(|value| !word && fits(value, &types)).unwrap_or_else(|| quoted(text))
    }

    /// JSON text of a value that the model marked as a text. It stays one unless the schema declares other types alone.
    pub(super) fn read_text(&self, key: &str, text: &str) -> String {
        let types = self.types(key);
        let text_fits = types.is_empty() || types.iter().any(|of| of == "string");
        if text_fits { quoted(text) } else { self.read(key, text) }
    }

    /// The declared types of a parameter; empty if none is declared.
    fn types(&self, key: &str) -> Vec<String> {
        let property = |root: &Json| root.get("properties")?.get(key).map(|property| types_of(root, property));
        self.0.as_ref().and_then(property).unwrap_or_default()
    }
}

/// JSON text of a text.
pub(super) fn quoted(text: &str) -> String {
    let mut json = String::new();
    push_string(text, &mut json);
    json
}

/// The declared types of a property, through alternatives and references.
fn types_of(root: &Json, property: &Json) -> Vec<String> {
    let mut types = Vec::new();
    let mut open = vec![property];
    for _ in 0..MAX_STEPS {
        let Some(schema) = open.pop() else { break };
        match schema.get("type") {
            Some(Json::String(one)) => types.push(one.to_lowercase()),
            Some(Json::Array(several)) => {
                types.extend(several.iter().filter_map(Json::as_str).map(str::to_lowercase));
            }
            _ => {
                let listed = schema.get("enum").and_then(Json::as_array).into_iter().flatten();
                types.extend(listed.chain(schema.get("const")).map(|value| type_of(value).to_owned()));
            }
        }
        if schema.get("nullable").and_then(Json::as_bool) == Some(true) {
            types.push("null".to_owned());
        }
        for alternatives in ["anyOf", "oneOf", "allOf"] {
            open.extend(schema.get(alternatives).and_then(Json::as_array).into_iter().flatten());
        }
        let pointer = schema.get("$ref").and_then(Json::as_str).and_then(|link| link.strip_prefix('#'));
        open.extend(pointer.and_then(|pointer| root.pointer(pointer)));
    }
    types
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// A list or dictionary in Python's spelling, where the schema has a list or an object.
fn python_value(text: &str, types: &[String]) -> Option<String> {
    let declared = types.iter().any(|of| of == "array" || of == "object");
    if declared { literal::read(text).ok() } else { None }
}

/// Whether a JSON value other than a text may stand for the parameter. A quoted text is a text with quotation marks.
fn fits(value: &str, types: &[String]) -> bool {
    let has = |name: &str| types.iter().any(|of| of == name);
    match value.bytes().next() {
        None | Some(b'"') => false,
        _ if types.is_empty() => true,
        Some(b'n') => has("null"),
        Some(b't' | b'f') => has("boolean"),
        Some(b'[') => has("array"),
        Some(b'{') => has("object"),
        Some(_) => has("number") || (has("integer") && !value.contains(['.', 'e', 'E'])),
    }
}
