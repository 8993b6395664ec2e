//! JSON Schema of the run file, derived from the types that parse it.

use std::sync::LazyLock;

use schemars::JsonSchema as _;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{EpisodeRules, RunFile};

/// Words for the range of a key, where numbers cannot express it. The page shows them; the schema omits them.
pub(crate) const RANGE: &str = "x-range";
/// Definition that flags share with other sections. The preset never gives a part of it, so its keys stay required.
const SHARED: &str = "WeightSchedule";
/// Words for the default of a key whose default is not a constant.
pub(crate) const DEFAULT: &str = "x-default";

/// JSON Schema (draft 2020-12) of a run file: every key with its type, default, range and meaning.
///
/// The schema refuses unknown keys and values out of range. Relations between keys, and plugins' options, are checked
/// by [`RunFile::check`] and by the plugins only. All algorithm flags are optional, as the stage's preset gives the
/// others.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = strict_schema();
    relax_flags(&mut schema);
    remove_words(&mut schema);
    schema
}

/// [`json_schema`], made once.
pub(crate) fn cached_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(json_schema);
    &SCHEMA
}

/// The schema of a run file that gives all flags of an algorithm itself, with words for ranges and defaults.
pub(crate) fn strict_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let rules = EpisodeRules::json_schema(&mut generator).to_value();
    let mut schema = generator.into_root_schema_for::<RunFile>().to_value();
    add_keys(&mut schema, rules);
    schema["title"] = json!("Gymkhana run file");
    tidy(&mut schema);
    shorten_defaults(&mut schema);
    schema
}

/// Puts the keys of the rules before those that only a run file has.
fn add_keys(schema: &mut Value, mut rules: Value) {
    let (Some(own), Some(rules)) = (schema["properties"].as_object_mut(), rules["properties"].as_object_mut()) else {
        return;
    };
    rules.append(own);
    std::mem::swap(own, rules);
}

/// The name of the definition that a schema refers to.
pub(crate) fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Removes what TOML cannot hold or no reader needs: null, Rust's number formats, line breaks within paragraphs.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(schema) => {
            remove_null(schema);
            if schema.get("format").is_some_and(|format| format != "uri") {
                schema.shift_remove("format");
            }
            if let Some(Value::String(text)) = schema.get_mut("description") {
                let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
                *text = paragraphs.collect::<Vec<_>>().join("\n\n");
            }
            schema.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

/// Reduces the schema of an `Option<T>` to that of `T`.
fn remove_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice["type"] != "null");
    if let [Value::Object(only)] = choices.as_mut_slice() {
        let only = std::mem::take(only);
        schema.shift_remove("anyOf");
        schema.extend(only);
    }
}

/// Reduces the default of a table to the keys that differ from the table's own defaults.
fn shorten_defaults(schema: &mut Value) {
    let definitions = schema["$defs"].clone();
    let tables = schema.get_mut("$defs").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
    tables.for_each(|table| shorten_defaults_of(table, &definitions));
    shorten_defaults_of(schema, &definitions);
}

fn shorten_defaults_of(table: &mut Value, definitions: &Value) {
    let keys = table.get_mut("properties").and_then(Value::as_object_mut);
    for key in keys.into_iter().flat_map(Map::values_mut) {
        let Some(name) = target(key).map(str::to_owned) else { continue };
        if let Some(Value::Object(default)) = key.get_mut("default") {
            default.retain(|inner, value| definitions[&name]["properties"][inner.as_str()]["default"] != *value);
        }
    }
}

/// Makes all flags of an algorithm optional, and allows `"off"`: the stage's preset gives the others.
fn relax_flags(schema: &mut Value) {
    let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(algorithm)) = definitions.get_mut("Algorithm") else { return };
    algorithm.shift_remove("required");
    let mut tables = Vec::new();
    for flag in algorithm.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        tables.extend(target(flag).filter(|name| *name != SHARED).map(str::to_owned));
        let Value::Object(own) = flag else { continue };
        let notes: Vec<_> =
            ["description", "default"].into_iter().filter_map(|key| own.shift_remove_entry(key)).collect();
        let own = std::mem::take(own);
        *flag = json!({ "anyOf": [own, { "const": "off" }] });
        flag.as_object_mut().into_iter().for_each(|flag| flag.extend(notes.clone()));
    }
    for table in tables {
        definitions.get_mut(&table).into_iter().for_each(make_optional);
    }
}

/// Makes all keys of a table optional. A table without `kind` extends the preset's, of whatever kind.
fn make_optional(table: &mut Value) {
    let Value::Object(table) = table else { return };
    table.shift_remove("required");
    let Some(Value::Array(kinds)) = table.get_mut("oneOf") else { return };
    if kinds.iter().all(|kind| kind["type"] == "object") {
        kinds.iter_mut().filter_map(Value::as_object_mut).for_each(|kind| drop(kind.shift_remove("required")));
        let kinds = table.shift_remove("oneOf");
        table.extend(kinds.map(|kinds| ("anyOf".to_owned(), kinds)));
    }
}

fn remove_words(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_words),
        Value::Object(schema) => {
            schema.shift_remove(RANGE);
            schema.shift_remove(DEFAULT);
            schema.values_mut().for_each(remove_words);
        }
        _ => {}
    }
}
