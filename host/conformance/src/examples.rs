//! Example arguments, generated from a function's JSON Schema and accepted by a validator.

use gymkhana_record::Stream;
use jsonschema::Validator;
use serde_json::{Map, Number, Value};

/// Depth below which only required parts are generated.
const DEPTH: u32 = 5;
/// Maximum number of attempts to generate an example that the validator accepts.
const TRIES: u32 = 30;

/// A function's compiled schema.
pub(crate) struct Examples {
    schema: Value,
    validator: Validator,
}

impl Examples {
    /// Compiles a schema. The error describes what is wrong with it.
    pub(crate) fn of(parameters: &str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(parameters).map_err(|error| format!("it is not JSON: {error}"))?;
        jsonschema::meta::validate(&schema).map_err(|error| format!("it is not a JSON Schema: {error}"))?;
        let validator =
            jsonschema::validator_for(&schema).map_err(|error| format!("no validator accepts it: {error}"))?;
        Ok(Self { schema, validator })
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
        names(&self.schema)
    }

    /// A random example that the validator accepts; `None` if none is found.
    pub(crate) fn make(&self, stream: &mut Stream) -> Option<Value> {
        let make = |_| Maker { root: &self.schema, stream }.value(&self.schema, 0);
        (0..TRIES).map(make).find(|made| self.accepts(made))
    }

    /// An example that depends only on the schema.
    pub(crate) fn plain(&self) -> Option<Value> {
        self.make(&mut gymkhana_record::Seed(0).stream())
    }
}

fn names(schema: &Value) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A key's value, if it is a non-empty list.
fn list<'a>(keys: &'a Map<String, Value>, name: &str) -> Option<&'a Vec<Value>> {
    keys.get(name).and_then(Value::as_array).filter(|list| !list.is_empty())
}

struct Maker<'a> {
    root: &'a Value,
    stream: &'a mut Stream,
}

impl Maker<'_> {
    fn value(&mut self, schema: &Value, depth: u32) -> Value {
        let Some(keys) = schema.as_object() else { return Value::from(self.word("")) };
        if let Some(constant) = keys.get("const") {
            return constant.clone();
        }
        if let Some(choices) = list(keys, "enum") {
            return self.one_of(choices);
        }
        if let Some(Value::String(reference)) = keys.get("$ref") {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            // A recursive schema ends at the maximum depth.
            return target.filter(|_| depth <= DEPTH).map_or(Value::Null, |target| self.value(target, depth + 1));
        }
        if let Some(choices) = list(keys, "anyOf").or_else(|| list(keys, "oneOf")) {
            let choice = self.one_of(choices);
            return self.value(&choice, depth + 1);
        }
        if let Some(known) = list(keys, "examples")
            && self.chance(3)
        {
            return self.one_of(known);
        }
        if let Some(default) = keys.get("default").filter(|_| self.chance(3)) {
            return default.clone();
        }
        let kind = match keys.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(Value::Array(kinds)) if !kinds.is_empty() => self.one_of(kinds).as_str().unwrap_or("null").to_owned(),
            _ if keys.contains_key("properties") => "object".to_owned(),
            _ => "string".to_owned(),
        };
        match kind.as_str() {
            "object" => self.object(keys, depth),
            "array" => self.array(keys, depth),
            "integer" => self.number(keys, true),
            "number" => self.number(keys, false),
            "boolean" => Value::from(self.chance(2)),
            "null" => Value::Null,
            _ => Value::from(self.text(keys)),
        }
    }

    fn object(&mut self, keys: &Map<String, Value>, depth: u32) -> Value {
        let required = names(&Value::Object(keys.clone()));
        let mut object = Map::new();
        for (name, schema) in keys.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(name) || (depth < DEPTH && self.chance(2)) {
                object.insert(name.clone(), self.value(schema, depth + 1));
            }
        }
        Value::Object(object)
    }

    fn array(&mut self, keys: &Map<String, Value>, depth: u32) -> Value {
        let bound = |name: &str| keys.get(name).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let most = bound("maxItems").unwrap_or(least + 3).min(least + 3);
        let count = if depth >= DEPTH { least } else { least + self.stream.below(most.saturating_sub(least) + 1) };
        let items = keys.get("items").cloned().unwrap_or(Value::Bool(true));
        (0..count.min(100)).map(|_| self.value(&items, depth + 1)).collect()
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

    fn text(&mut self, keys: &Map<String, Value>) -> String {
        let bound = |name: &str| keys.get(name).and_then(Value::as_u64).map(|length| length as usize);
        let mut text = self.word(keys.get("description").and_then(Value::as_str).unwrap_or_default());
        while text.chars().count() < bound("minLength").unwrap_or(0).min(10_000) {
            text.push('x');
        }
        text.chars().take(bound("maxLength").unwrap_or(usize::MAX)).collect()
    }

    /// A word of the description, which often contains an example, or a fixed text.
    fn word(&mut self, description: &str) -> String {
        const OTHERS: [&str; 8] = ["7", "1 + 2", "", "hello", "a b", "ä漢🙂", "2024-02-29", "x"];
        let words: Vec<&str> = description.split_whitespace().collect();
        if words.is_empty() || self.chance(3) {
            self.one_of(&OTHERS).to_owned()
        } else {
            self.one_of(&words).to_owned()
        }
    }

    fn chance(&mut self, of: u64) -> bool {
        self.stream.below(of) == 0
    }

    fn one_of<T: Clone>(&mut self, things: &[T]) -> T {
        things[self.stream.below(things.len() as u64) as usize].clone()
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
        let distinct: std::collections::BTreeSet<String> = made.iter().map(Value::to_string).collect();
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

    #[test]
    fn a_recursive_schema_ends() {
        let tree = r##"{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}"##;
        let examples = Examples::of(tree).unwrap();
        let mut stream = Seed(2).stream();
        assert!((0..20).filter_map(|_| examples.make(&mut stream)).count() > 10);
    }
}
