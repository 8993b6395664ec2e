//! The value of a run file that serde refuses for its type, found with the JSON Schema.
//!
//! serde's message holds the value and not its key, because stages and tables with a tag are buffered while they are
//! parsed.

use serde_json::Value as Schema;
use toml::{Table, Value};

use crate::schema::{json_schema, target};

/// A part of the path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStep {
    /// Key of a table.
    Key(String),
    /// Place in a list, from 0.
    Index(usize),
}

/// A value of another type or beyond a bound.
pub(crate) struct Mismatch {
    /// Path of the value.
    pub path: Vec<PathStep>,
    /// The value.
    pub value: Value,
    /// Schema that the value violates; the first possibility if there are several.
    pub schema: Schema,
}

impl Mismatch {
    /// The value of a run file that a message of serde is about.
    pub fn in_run_file(message: &str, table: &Table) -> Option<Self> {
        let schema = json_schema();
        Self::find(message, table, &schema, &schema, &[])
    }

    /// The key of a stage's `settings` or `optimizer` that a message of serde is about; its path begins with the
    /// table's name.
    pub fn in_table(message: &str, name: &str, table: &Table) -> Option<Self> {
        let schema = json_schema();
        let definition = if name == "settings" { "Algorithm" } else { "Optimizer" };
        Self::find(message, table, &schema, &schema["$defs"][definition], &[PathStep::Key(name.to_owned())])
    }

    fn find(message: &str, table: &Table, root: &Schema, schema: &Schema, path: &[PathStep]) -> Option<Self> {
        if !message.starts_with("invalid type: ") && !message.starts_with("invalid value: ") {
            return None;
        }
        let search = Search { definitions: &root["$defs"], message };
        search.visit(&Value::Table(table.clone()), schema, path)
    }
}

/// A search for the value that a message is about.
struct Search<'a> {
    definitions: &'a Schema,
    message: &'a str,
}

impl<'a> Search<'a> {
    fn visit(&self, value: &Value, schema: &'a Schema, path: &[PathStep]) -> Option<Mismatch> {
        let schema = self.applied(value, schema);
        if !fits(value, schema) && self.message.contains(&unexpected(value)) {
            return Some(Mismatch { path: path.to_vec(), value: value.clone(), schema: schema.clone() });
        }
        let below = |step: PathStep| [path, &[step]].concat();
        match value {
            Value::Table(table) => table.iter().find_map(|(key, inner)| {
                let schema = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
                self.visit(inner, schema, &below(PathStep::Key(key.clone())))
            }),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .find_map(|(index, inner)| self.visit(inner, &schema["items"], &below(PathStep::Index(index)))),
            _ => None,
        }
    }

    /// The schema that applies to a value: behind references and conditions, and of several schemas the one that suits
    /// the value, or the first.
    fn applied(&self, value: &Value, schema: &'a Schema) -> &'a Schema {
        if let Some(name) = target(schema) {
            return self.applied(value, &self.definitions[name]);
        }
        if let Some(condition) = schema.get("if") {
            let branch = if self.suits(value, condition) { "then" } else { "else" };
            return self.applied(value, &schema[branch]);
        }
        let Some(choices) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Schema::as_array) else {
            return schema;
        };
        let choice = choices.iter().find(|choice| self.suits(value, choice)).or(choices.first());
        choice.map_or(schema, |choice| self.applied(value, choice))
    }

    /// Whether a value has the type of a schema, and a table also its tag.
    fn suits(&self, value: &Value, schema: &'a Schema) -> bool {
        let schema = self.applied(value, schema);
        let is = |value: &Value, word: &Schema| value.as_str() == word.as_str();
        let mut tags = schema["properties"].as_object().into_iter().flatten();
        has_type(value, schema)
            && schema.get("const").is_none_or(|word| is(value, word))
            && tags.all(|(key, inner)| match (value.get(key), inner.get("const")) {
                (Some(own), Some(word)) => is(own, word),
                _ => true,
            })
    }
}

/// Whether a value has the type of a schema, and an integer is within its bounds.
pub(crate) fn fits(value: &Value, schema: &Schema) -> bool {
    has_type(value, schema) && exceeded(value, schema).is_none()
}

/// The bound of a schema that an integer exceeds, in words.
pub(crate) fn exceeded(value: &Value, schema: &Schema) -> Option<String> {
    let number = value.as_integer()?;
    let low = schema["minimum"].as_i64().filter(|low| number < *low).map(|low| format!("{low} or more"));
    let high = schema["maximum"].as_i64().filter(|high| number > *high).map(|high| format!("{high} or less"));
    low.or(high)
}

fn has_type(value: &Value, schema: &Schema) -> bool {
    match schema["type"].as_str() {
        Some("integer") => value.is_integer(),
        Some("number") => value.is_integer() || value.is_float(),
        Some("boolean") => value.is_bool(),
        Some("string") => value.is_str(),
        Some("array") => value.is_array(),
        Some("object") => value.is_table(),
        _ => true,
    }
}

/// A value as serde's messages show it.
fn unexpected(value: &Value) -> String {
    match value {
        Value::String(text) => format!("string {text:?}"),
        Value::Integer(number) => format!("integer `{number}`"),
        Value::Boolean(flag) => format!("boolean `{flag}`"),
        Value::Float(_) => "floating point".to_owned(),
        Value::Array(_) => "sequence".to_owned(),
        Value::Table(_) | Value::Datetime(_) => "map".to_owned(),
    }
}
