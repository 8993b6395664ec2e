//! Example arguments, generated from a function's JSON Schema and accepted by a validator.

use std::collections::BTreeSet;

use gymkhana_record::{Seed, Stream};
use jsonschema::Validator;
use serde_json::{Map, Number, Value};

/// Depth below which only required parts are generated.
const DEPTH: u32 = 5;
/// Maximum number of attempts to generate an example that the validator accepts.
const TRIES: u32 = 30;
/// Values of one example: those of a large call of a published tool are some hundreds.
const MAX_VALUES: usize = 10_000;
/// Bytes of the texts and names of one example.
const MAX_BYTES: usize = 1 << 20;
/// Properties of a schema that are looked at for one example.
const MAX_PROPERTIES: usize = 1_000_000;
/// Words of a description from which a text is chosen.
const MAX_WORDS: usize = 1000;

/// Schema of items that are not described.
static ANYTHING: Value = Value::Bool(true);

/// A schema from which no example can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// It is malformed; the reason.
    #[error("{0}")]
    Invalid(String),
    /// Every example exceeds a limit.
    #[error("the schema asks for too large a value: more than {} values or {} bytes", MAX_VALUES, MAX_BYTES)]
    TooLarge,
}

/// An example exceeds a limit.
#[derive(Debug)]
struct TooLarge;

/// A function's compiled schema.
pub(crate) struct Examples {
    schema: Value,
    validator: Validator,
}

impl Examples {
    /// Compiles a schema. The error describes what is wrong with it.
    pub(crate) fn of(parameters: &str) -> Result<Self, SchemaError> {
        let invalid = |what: &str, error: &dyn std::fmt::Display| SchemaError::Invalid(format!("{what}: {error}"));
        let schema: Value = serde_json::from_str(parameters).map_err(|error| invalid("it is not JSON", &error))?;
        jsonschema::meta::validate(&schema).map_err(|error| invalid("it is not a JSON Schema", &error))?;
        let validator = jsonschema::validator_for(&schema);
        let validator = validator.map_err(|error| invalid("no validator accepts it", &error))?;
        let examples = Self { schema, validator };
        let mut stream = Seed(0).stream();
        if (0..TRIES).all(|_| examples.attempt(&mut stream).is_err()) {
            return Err(SchemaError::TooLarge);
        }
        Ok(examples)
    }

    /// The schema as JSON.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether the arguments match the schema.
    pub(crate) fn accepts(&self, arguments: &Value) -> bool {
        self.validator.is_valid(arguments)
    }

    /// Names of the required arguments.
    pub(crate) fn required(&self) -> Vec<String> {
        self.schema.as_object().into_iter().flat_map(names).map(str::to_owned).collect()
    }

    /// A random example that the validator accepts; `None` if none is found.
    pub(crate) fn make(&self, stream: &mut Stream) -> Option<Value> {
        (0..TRIES).filter_map(|_| self.attempt(stream).ok()).find(|made| self.accepts(made))
    }

    /// An example that depends only on the schema.
    pub(crate) fn plain(&self) -> Option<Value> {
        self.make(&mut Seed(0).stream())
    }

    /// A random value of the schema's types, within the limits.
    fn attempt(&self, stream: &mut Stream) -> Result<Value, TooLarge> {
        Maker { root: &self.schema, stream, values: 0, bytes: 0, properties: 0 }.value(&self.schema, 0)
    }
}

/// Names of the required properties.
fn names(keys: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let names = keys.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// A key's value, if it is a non-empty list.
fn list<'a>(keys: &'a Map<String, Value>, name: &str) -> Option<&'a Vec<Value>> {
    keys.get(name).and_then(Value::as_array).filter(|list| !list.is_empty())
}

/// Generator of one example, with what the example has used.
struct Maker<'a> {
    root: &'a Value,
    stream: &'a mut Stream,
    values: usize,
    bytes: usize,
    properties: usize,
}

impl Maker<'_> {
    /// Counts values, bytes of texts, and properties that were looked at.
    fn spend(&mut self, values: usize, bytes: usize, properties: usize) -> Result<(), TooLarge> {
        self.values = self.values.saturating_add(values);
        self.bytes = self.bytes.saturating_add(bytes);
        self.properties = self.properties.saturating_add(properties);
        let over = self.values > MAX_VALUES || self.bytes > MAX_BYTES || self.properties > MAX_PROPERTIES;
        if over { Err(TooLarge) } else { Ok(()) }
    }

    /// Whether optional parts may still be generated. Beyond half of a limit, the rest is left to required parts.
    fn is_ample(&self) -> bool {
        self.values < MAX_VALUES / 2 && self.bytes < MAX_BYTES / 2
    }

    /// A copy of a value that the schema gives.
    fn given(&mut self, value: &Value) -> Result<Value, TooLarge> {
        self.count(value)?;
        Ok(value.clone())
    }

    fn count(&mut self, value: &Value) -> Result<(), TooLarge> {
        match value {
            Value::String(text) => self.spend(1, text.len(), 0),
            Value::Array(items) => {
                self.spend(1, 0, 0)?;
                items.iter().try_for_each(|item| self.count(item))
            }
            Value::Object(keys) => {
                self.spend(1, 0, 0)?;
                keys.iter().try_for_each(|(name, value)| self.spend(0, name.len(), 0).and_then(|()| self.count(value)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.spend(1, 0, 0),
        }
    }

    fn value(&mut self, schema: &Value, depth: u32) -> Result<Value, TooLarge> {
        let Some(keys) = schema.as_object() else { return self.word("").map(Value::from) };
        if let Some(constant) = keys.get("const") {
            return self.given(constant);
        }
        if let Some(choices) = list(keys, "enum") {
            let choice = self.one_of(choices);
            return self.given(choice);
        }
        if let Some(Value::String(reference)) = keys.get("$ref") {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            // A recursive schema ends at the maximum depth.
            return match target.filter(|_| depth <= DEPTH) {
                Some(target) => self.value(target, depth + 1),
                None => Ok(Value::Null),
            };
        }
        if let Some(choices) = list(keys, "anyOf").or_else(|| list(keys, "oneOf")) {
            let choice = self.one_of(choices);
            return self.value(choice, depth + 1);
        }
        if let Some(known) = list(keys, "examples")
            && self.chance(3)
        {
            let example = self.one_of(known);
            return self.given(example);
        }
        if let Some(default) = keys.get("default").filter(|_| self.chance(3)) {
            return self.given(default);
        }
        let kind = match keys.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) if !kinds.is_empty() => self.one_of(kinds).as_str().unwrap_or("null"),
            _ if keys.contains_key("properties") => "object",
            _ => "string",
        };
        match kind {
            "object" => self.object(keys, depth),
            "array" => self.array(keys, depth),
            "string" => self.text(keys).map(Value::from),
            other => {
                self.spend(1, 0, 0)?;
                Ok(match other {
                    "integer" => self.number(keys, true),
                    "number" => self.number(keys, false),
                    "boolean" => Value::from(self.chance(2)),
                    _ => Value::Null,
                })
            }
        }
    }

    fn object(&mut self, keys: &Map<String, Value>, depth: u32) -> Result<Value, TooLarge> {
        self.spend(1, 0, 0)?;
        let required: BTreeSet<&str> = names(keys).collect();
        let mut object = Map::new();
        for (name, schema) in keys.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.spend(0, 0, 1)?;
            if required.contains(name.as_str()) || (depth < DEPTH && self.is_ample() && self.chance(2)) {
                self.spend(0, name.len(), 0)?;
                object.insert(name.clone(), self.value(schema, depth + 1)?);
            }
        }
        Ok(Value::Object(object))
    }

    fn array(&mut self, keys: &Map<String, Value>, depth: u32) -> Result<Value, TooLarge> {
        self.spend(1, 0, 0)?;
        let bound = |name: &str| keys.get(name).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let most = least.saturating_add(3);
        let most = bound("maxItems").unwrap_or(most).min(most);
        let is_short = depth >= DEPTH || !self.is_ample();
        let more = if is_short { 0 } else { self.stream.below(most.saturating_sub(least) + 1) };
        let items = keys.get("items").unwrap_or(&ANYTHING);
        (0..least.saturating_add(more)).map(|_| self.value(items, depth + 1)).collect()
    }

    fn number(&mut self, keys: &Map<String, Value>, whole: bool) -> Value {
        let bound = |name: &str| keys.get(name).and_then(Value::as_f64);
        let low = bound("minimum").or(bound("exclusiveMinimum"));
        let high = bound("maximum").or(bound("exclusiveMaximum"));
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, low + 100.0),
            (None, Some(high)) => (high - 100.0, high),
            (None, None) => (-10.0, 100.0),
        };
        let mut number = low + self.stream.unit() * (high - low);
        if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0) {
            number = (number / step).round() * step;
        }
        if whole {
            return Value::from(number.round() as i64);
        }
        Number::from_f64(number).map_or(Value::from(0), Value::Number)
    }

    fn text(&mut self, keys: &Map<String, Value>) -> Result<String, TooLarge> {
        let bound = |name: &str| keys.get(name).and_then(Value::as_u64).map(|length| length as usize);
        let mut text = self.word(keys.get("description").and_then(Value::as_str).unwrap_or_default())?;
        let lacking = bound("minLength").unwrap_or(0).saturating_sub(text.chars().count());
        self.spend(0, lacking, 0)?;
        text.extend(std::iter::repeat_n('x', lacking));
        Ok(text.chars().take(bound("maxLength").unwrap_or(usize::MAX)).collect())
    }

    /// A word of the description, which often contains an example, or a fixed text.
    fn word(&mut self, description: &str) -> Result<String, TooLarge> {
        const OTHERS: [&str; 8] = ["7", "1 + 2", "", "hello", "a b", "ä漢🙂", "2024-02-29", "x"];
        let words: Vec<&str> = description.split_whitespace().take(MAX_WORDS).collect();
        let word = if words.is_empty() || self.chance(3) { *self.one_of(&OTHERS) } else { *self.one_of(&words) };
        self.spend(1, word.len(), 0)?;
        Ok(word.to_owned())
    }

    fn chance(&mut self, of: u64) -> bool {
        self.stream.below(of) == 0
    }

    fn one_of<'t, T>(&mut self, things: &'t [T]) -> &'t T {
        &things[self.stream.below(things.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;

    #[test]
    fn examples_fit_their_schema_and_differ() {
        let schema = r##"{"type": "object", "required": ["a", "b", "c", "d", "e"], "additionalProperties": false,
            "properties": {
                "a": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 3},
                "b": {"type": "string", "minLength": 2, "maxLength": 4},
                "c": {"enum": ["x", 7, null]},
                "d": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/point"}},
                "e": {"anyOf": [{"type": "boolean"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}]},
                "f": {"type": ["null", "string"]}},
            "$defs": {"point": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}}}}"##;
        let examples = Examples::of(schema).unwrap();
        let mut stream = Seed(1).stream();
        let made: Vec<Value> = (0..50).map(|_| examples.make(&mut stream).unwrap()).collect();
        assert!(made.iter().all(|made| examples.accepts(made)));
        let distinct: BTreeSet<String> = made.iter().map(Value::to_string).collect();
        assert!(distinct.len() > 20, "{} of 50 differ", distinct.len());
        assert_eq!(examples.required(), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn an_invalid_schema_is_an_error_with_its_reason() {
        assert!(Examples::of(r#"{"type": "object"}"#).is_ok());
        for wrong in [r#"{"type": "objekt"}"#, r#"{"required": "a"}"#, "{", r##"{"$ref": "#/$defs/none"}"##] {
            assert!(Examples::of(wrong).is_err(), "{wrong}");
        }
    }

    /// Arrays of at least `items` items, nested `depth` deep.
    fn nested(depth: u32, items: u32) -> String {
        let inner = (0..depth).fold(r#"{"type": "integer"}"#.to_owned(), |inner, _| {
            format!(r#"{{"type": "array", "minItems": {items}, "items": {inner}}}"#)
        });
        format!(r#"{{"type": "object", "required": ["a"], "properties": {{"a": {inner}}}}}"#)
    }

    #[test]
    fn a_schema_of_large_values_is_an_error_and_one_of_small_values_is_not() {
        let deep = (0..40).fold(r#"{"type": "null"}"#.to_owned(), |inner, _| {
            let part = r#"{"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "null"}, "b": "#;
            format!("{part}{inner}}}}}")
        });
        let many = format!(
            r#"{{"type": "object", "required": ["a"], "properties": {{"a": {{"type": "array",
            "minItems": {}, "items": {{"type": "null"}}}}}}}}"#,
            u64::MAX
        );
        let long = r#"{"type": "object", "required": ["a"], "properties": {"a": {"type": "string",
            "minLength": 2000000}}}"#;
        for large in [nested(5, 100), many, long.to_owned()] {
            let error = Examples::of(&large).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("asks for too large a value"), "{error}");
        }
        for small in [nested(5, 4), nested(2, 90), deep, long.replace("2000000", "20000")] {
            let examples = Examples::of(&small).unwrap();
            assert!(examples.make(&mut Seed(3).stream()).is_some(), "{small}");
        }
    }

    #[test]
    fn optional_parts_are_left_out_of_a_large_example() {
        let parts: Vec<String> = (0..60).map(|part| format!(r##""p{part}": {{"$ref": "#/$defs/level"}}"##)).collect();
        let level = format!(r#""type": "object", "properties": {{{}}}"#, parts.join(", "));
        let wide = format!(r#"{{{level}, "$defs": {{"level": {{{level}}}}}}}"#);
        let made = Examples::of(&wide).unwrap().make(&mut Seed(4).stream()).unwrap();
        assert!(made.to_string().len() > 10_000, "half of the limit is used");
    }

    #[test]
    fn a_recursive_schema_ends() {
        let tree = r##"{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}"##;
        let examples = Examples::of(tree).unwrap();
        let mut stream = Seed(2).stream();
        assert!((0..20).filter_map(|_| examples.make(&mut stream)).count() > 10);
    }
}
