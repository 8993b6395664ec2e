//! Parameters of a function as JSON Schema. xLAM's data list them with types of Python, BFCL's data name types of Python in
//! a schema.

use serde_json::{Map, Value as Json, json};

/// Keys of which a JSON Schema of an object has at least one.
const KEYS: [&str; 9] =
    ["type", "properties", "required", "additionalProperties", "$ref", "$schema", "anyOf", "oneOf", "allOf"];
/// Deepest nesting of a type's name, such as `List[List[int]]`.
const DEEPEST: u32 = 8;

/// The schema of parameters.
///
/// # Errors
/// The keys of an object that is neither a schema nor a list of parameters.
pub(crate) fn schema(mut parameters: Map<String, Json>) -> Result<Json, String> {
    if !parameters.is_empty() && parameters.values().all(is_parameter) {
        return Ok(of_list(parameters));
    }
    if parameters.is_empty() || parameters.keys().any(|key| KEYS.contains(&key.as_str())) {
        rename_types(&mut parameters);
        return Ok(Json::Object(parameters));
    }
    Err(parameters.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "))
}

/// Whether a value describes one parameter: no key of a schema has an object with a name of a type.
fn is_parameter(value: &Json) -> bool {
    value.get("type").is_some_and(Json::is_string)
}

/// Schema of a list of parameters by name. A parameter that is optional or has a default may be left out.
fn of_list(parameters: Map<String, Json>) -> Json {
    let mut required = Vec::new();
    let mut properties = Map::new();
    for (name, parameter) in parameters {
        let Json::Object(mut property) = parameter else { continue };
        let kind = property.remove("type").unwrap_or_default();
        let (kind, is_optional) = without_optional(kind.as_str().unwrap_or_default());
        let is_required = property.get("required").and_then(Json::as_bool).unwrap_or(true);
        if !is_optional && is_required && !property.contains_key("default") {
            required.push(name.clone());
        }
        // `true` or `false` of one parameter is not a list of required ones.
        property.retain(|key, value| key != "required" || value.is_array());
        rename_types(&mut property);
        let mut schema = named_type(kind, DEEPEST);
        schema.extend(property);
        properties.insert(name, Json::Object(schema));
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Name of a type, and whether it says that the parameter is optional: `str, optional` or `Optional[str]`.
fn without_optional(name: &str) -> (&str, bool) {
    let (name, note) = match name.rsplit_once(',') {
        Some((kind, note)) if note.trim().eq_ignore_ascii_case("optional") => (kind.trim(), true),
        _ => (name.trim(), false),
    };
    let inside = name.strip_prefix("Optional[").and_then(|rest| rest.strip_suffix(']'));
    (inside.unwrap_or(name), note || inside.is_some())
}

/// Gives types of Python in a schema their names in JSON Schema.
fn rename_types(schema: &mut Map<String, Json>) {
    if let Some(name) = schema.get("type").and_then(Json::as_str).filter(|name| !is_json_type(name)) {
        let named = named_type(without_optional(name).0, DEEPEST);
        schema.remove("type");
        for (key, value) in named {
            schema.entry(key).or_insert(value);
        }
    }
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Json::as_object_mut).for_each(rename_types);
    }
    if let Some(Json::Object(items)) = schema.get_mut("items") {
        rename_types(items);
    }
}

fn is_json_type(name: &str) -> bool {
    matches!(name, "string" | "number" | "integer" | "boolean" | "array" | "object" | "null")
}

/// Schema of a type of Python. A type that JSON does not have allows every value.
fn named_type(name: &str, depth: u32) -> Map<String, Json> {
    let (outer, inside) = match name.split_once('[') {
        Some((outer, rest)) => (outer, rest.strip_suffix(']')),
        None => (name, None),
    };
    let kind = match outer.trim().to_ascii_lowercase().as_str() {
        "str" | "string" => "string",
        "int" | "integer" | "long" => "integer",
        "float" | "number" | "double" => "number",
        "bool" | "boolean" => "boolean",
        "list" | "array" | "tuple" | "set" => "array",
        "dict" | "object" | "hashmap" => "object",
        "null" | "none" | "nonetype" => "null",
        _ => return Map::new(),
    };
    let mut schema = Map::from_iter([("type".to_owned(), Json::from(kind))]);
    let item = inside.filter(|inside| kind == "array" && depth > 0 && !is_list(inside));
    if let Some(item) = item.map(|item| named_type(item.trim(), depth - 1)).filter(|item| !item.is_empty()) {
        schema.insert("items".to_owned(), Json::Object(item));
    }
    schema
}

/// Whether a name in brackets is several types: a comma outside of inner brackets.
fn is_list(inside: &str) -> bool {
    let mut depth = 0_u32;
    inside.chars().any(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parameters: Json) -> Result<Json, String> {
        let Json::Object(parameters) = parameters else { panic!("{parameters}") };
        schema(parameters)
    }

    /// Parameters as xLAM's data list them.
    #[test]
    fn a_list_of_parameters_becomes_a_schema() {
        let parameters = json!({
            "format": {"description": "long or short", "type": "str, optional", "default": "long"},
            "q": {"description": "The query.", "type": "str"},
            "ids": {"type": "List[int]"},
            "grid": {"type": "List[List[float]]", "description": "Rows."},
            "size": {"type": "Tuple[int, int], optional"},
            "limit": {"type": "Optional[int]"},
            "by": {"type": "Callable[[float], float]"},
            "page": {"type": "int", "default": 1},
            "type": {"type": "bool", "required": false},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "format": {"type": "string", "description": "long or short", "default": "long"},
                "q": {"type": "string", "description": "The query."},
                "ids": {"type": "array", "items": {"type": "integer"}},
                "grid": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}, "description": "Rows."},
                "size": {"type": "array"},
                "limit": {"type": "integer"},
                "by": {},
                "page": {"type": "integer", "default": 1},
                "type": {"type": "boolean"},
            },
            "required": ["q", "ids", "grid", "by"],
        });
        let found = of(parameters).expect("a schema");
        assert_eq!(found["properties"], expected["properties"]);
        let mut required: Vec<&str> =
            found["required"].as_array().expect("a list").iter().filter_map(Json::as_str).collect();
        required.sort_unstable();
        assert_eq!((found["type"].as_str(), required), (Some("object"), vec!["by", "grid", "ids", "q"]));
    }

    /// Types as BFCL's and Gemini's data name them.
    #[test]
    fn types_of_python_get_their_names_in_json() {
        let schema = json!({"type": "dict", "properties": {
            "a": {"type": "float"}, "b": {"type": "STRING"}, "c": {"type": "list", "items": {"type": "dict"}}, "d": {"type": "any"},
        }, "required": ["a"]});
        let expected = json!({"type": "object", "properties": {
            "a": {"type": "number"}, "b": {"type": "string"}, "c": {"type": "array", "items": {"type": "object"}}, "d": {},
        }, "required": ["a"]});
        assert_eq!(of(schema), Ok(expected));
    }

    #[test]
    fn a_schema_stays_as_it_is() {
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["a"]}}, "required": ["type"]}),
            json!({"properties": {"a": {"type": "string"}, "type": {"type": "null"}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        ] {
            assert_eq!(of(schema.clone()), Ok(schema));
        }
    }

    #[test]
    fn other_objects_are_refused_with_their_keys() {
        assert_eq!(of(json!({"city": "Rome", "days": 3})), Err("`city`, `days`".to_owned()));
    }
}
