//! Examples of arguments, made from a function's JSON Schema and kept only where a validator accepts them.

use gymkhana_record::Stream;
use jsonschema::Validator;
use serde_json::{Map, Number, Value};

/// Deeper than this, only what must be there is made.
const DEPTH: u32 = 5;
/// How often an example is made anew because the validator refuses it.
const TRIES: u32 = 30;

/// A function's schema, compiled.
pub(crate) struct Examples {
    schema: Value,
    validator: Validator,
}

impl Examples {
    /// Reads a schema. The error says what is wrong with it.
    pub(crate) fn of(parameters: &str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(parameters).map_err(|error| format!("it is not JSON: {error}"))?;
        jsonschema::meta::validate(&schema).map_err(|error| format!("it is no JSON Schema: {error}"))?;
        let validator =
            jsonschema::validator_for(&schema).map_err(|error| format!("no validator accepts it: {error}"))?;
        Ok(Self { schema, validator })
    }

    /// The schema.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether the arguments fit.
    pub(crate) fn accepts(&self, arguments: &Value) -> bool {
        self.validator.is_valid(arguments)
    }

    /// The arguments that every call must have.
    pub(crate) fn required(&self) -> Vec<String> {
        names(&self.schema)
    }

    /// An example that the validator accepts, if one is found.
    pub(crate) fn make(&self, stream: &mut Stream) -> Option<Value> {
        let make = |_| Maker { root: &self.schema, stream }.value(&self.schema, 0);
        (0..TRIES).map(make).find(|made| self.accepts(made))
    }

    /// An example, always the same.
    pub(crate) fn plain(&self) -> Option<Value> {
        self.make(&mut gymkhana_record::Seed(0).stream())
    }
}

fn names(schema: &Value) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What stands under a key, if it is a list with something in it.
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
            // A schema may hold itself; it ends where the depth does.
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

    /// A word of a description, which often gives an example, or another one.
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
    fn what_is_no_schema_is_told() {
        assert!(Examples::of(r#"{"type": "object"}"#).is_ok());
        for wrong in [r#"{"type": "objekt"}"#, r#"{"required": "a"}"#, "{", r##"{"$ref": "#/$defs/none"}"##] {
            assert!(Examples::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_schema_that_holds_itself_ends() {
        let tree = r##"{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}"##;
        let examples = Examples::of(tree).unwrap();
        let mut stream = Seed(2).stream();
        assert!((0..20).filter_map(|_| examples.make(&mut stream)).count() > 10);
    }
}
