//! The value of a run file that has another type than its key, or is beyond a bound of it.
//!
//! The JSON Schema has both for each key, from the types that parse the file. It is asked before they are, because they
//! check no bounds, and stages and tables with a tag are buffered while they are parsed, without the names of their keys.

use serde_json::Value as Schema;
use toml::{Table, Value};

use crate::reference::words;
use crate::schema::{cached_schema, target};

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
    /// The first value of a run file that its key refuses; also of a table with the rules of episodes alone.
    pub fn in_run_file(table: &Table) -> Option<Self> {
        let schema = cached_schema();
        let search = Search { definitions: &schema["$defs"] };
        search.visit(&Value::Table(table.clone()), schema, &[])
    }
}

/// A search for the first mismatch.
struct Search<'a> {
    definitions: &'a Schema,
}

impl<'a> Search<'a> {
    fn visit(&self, value: &Value, schema: &'a Schema, path: &[PathStep]) -> Option<Mismatch> {
        let schema = self.applied(value, schema);
        if !fits(value, schema) {
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
    /// the value.
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
        if let Some(choice) = choices.iter().find(|choice| self.suits(value, choice)) {
            return self.applied(value, choice);
        }
        // A word such as `"off"` has one alternative, which is checked. If there are several, the parser names them all.
        let mut others = choices.iter().filter(|choice| choice.get("const").is_none());
        match (others.next(), others.next()) {
            (Some(only), None) => self.applied(value, only),
            _ => &Schema::Null,
        }
    }

    /// Whether a value has the type of a schema, and a table also its tag.
    fn suits(&self, value: &Value, schema: &'a Schema) -> bool {
        let schema = self.applied(value, schema);
        let is = |value: &Value, word: &Schema| value.as_str() == word.as_str();
        let mut tags = schema["properties"].as_object().into_iter().flatten();
        has_type(value, schema)
            && schema.get("const").is_none_or(|word| is(value, word))
            && schema
                .get("enum")
                .and_then(Schema::as_array)
                .is_none_or(|words| words.iter().any(|word| is(value, word)))
            && tags.all(|(key, inner)| match (value.get(key), inner.get("const")) {
                (Some(own), Some(word)) => is(own, word),
                _ => true,
            })
    }
}

/// Whether a value has the type of a schema, and a number is within its bounds.
pub(crate) fn fits(value: &Value, schema: &Schema) -> bool {
    has_type(value, schema) && exceeded(value, schema).is_none()
}

/// Whether a number holds a bound.
type Holds = fn(f64, f64) -> bool;

/// What a number that exceeds a bound of a schema must be, in words. One that is not finite exceeds every bound.
pub(crate) fn exceeded(value: &Value, schema: &Schema) -> Option<String> {
    let number = value.as_float().or(value.as_integer().map(|number| number as f64))?;
    let bounds: [(&str, &str, Holds); 4] = [
        ("minimum", "or more", |number, bound| number >= bound),
        ("exclusiveMinimum", "above", |number, bound| number > bound),
        ("maximum", "or less", |number, bound| number <= bound),
        ("exclusiveMaximum", "below", |number, bound| number < bound),
    ];
    if !number.is_finite() {
        return bounds.iter().any(|(key, ..)| schema.get(key).is_some()).then(|| "a finite number".to_owned());
    }
    bounds.into_iter().find_map(|(key, words, holds)| {
        let bound = schema.get(key)?.as_f64()?;
        let shown = words::number(&schema[key]);
        let words = if words.starts_with("or") { format!("{shown} {words}") } else { format!("{words} {shown}") };
        (!holds(number, bound)).then_some(words)
    })
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
