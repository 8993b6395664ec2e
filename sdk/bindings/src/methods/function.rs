//! Functions that a policy may call, and the arguments of its calls.

use serde_json::{Map, Value as Json, json};

use crate::{Call, Function, listed};

/// Arguments object of a function, as JSON Schema.
///
/// ```
/// # use gymkhana_sdk_bindings as gymkhana_sdk;
/// use gymkhana_sdk::Parameters;
/// let parameters = Parameters::new().text("expression", "such as 37*84-59");
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters {
    properties: Map<String, Json>,
    required: Vec<String>,
}

impl Parameters {
    /// Arguments object without arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a required string argument.
    #[must_use]
    pub fn text(self, name: &str, description: &str) -> Self {
        self.required(name, "string", description)
    }

    /// Adds a required integer argument.
    #[must_use]
    pub fn integer(self, name: &str, description: &str) -> Self {
        self.required(name, "integer", description)
    }

    /// Adds a required number argument.
    #[must_use]
    pub fn number(self, name: &str, description: &str) -> Self {
        self.required(name, "number", description)
    }

    /// Makes the last argument optional.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.required.pop();
        self
    }

    fn required(mut self, name: &str, kind: &str, description: &str) -> Self {
        self.properties.insert(name.to_owned(), json!({"type": kind, "description": description}));
        self.required.push(name.to_owned());
        self
    }

    fn schema(self) -> String {
        json!({"type": "object", "properties": self.properties, "required": self.required}).to_string()
    }
}

impl Function {
    /// Function with a description of one or two sentences for the policy. Its calls are free.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Parameters) -> Self {
        Self { name: name.into(), description: description.into(), parameters: parameters.schema(), cost: 0.0 }
    }

    /// Sets the cost of one call, in the author's unit.
    #[must_use]
    pub fn costing(mut self, cost: f64) -> Self {
        self.cost = cost;
        self
    }
}

impl Call {
    /// Call for use in an oracle's advice: the host assigns the identifier.
    #[must_use]
    pub fn advised(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: String::new(), name: name.into(), arguments: arguments.into() }
    }

    /// String argument `name`.
    ///
    /// # Errors
    ///
    /// Missing argument or wrong type: a sentence that tells the agent what to write instead.
    pub fn text(&self, name: &str) -> Result<String, String> {
        self.argument(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// Integer argument `name`.
    ///
    /// # Errors
    ///
    /// See [`Call::text`].
    pub fn integer(&self, name: &str) -> Result<i64, String> {
        self.argument(name, "a whole number", Json::as_i64)
    }

    /// Number argument `name`.
    ///
    /// # Errors
    ///
    /// See [`Call::text`].
    pub fn number(&self, name: &str) -> Result<f64, String> {
        self.argument(name, "a number", Json::as_f64)
    }

    /// Whether the call has the argument `name`, and it is not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        serde_json::from_str::<Json>(&self.arguments).is_ok_and(|arguments| !arguments[name].is_null())
    }

    fn argument<T>(&self, name: &str, wanted: &str, read: impl Fn(&Json) -> Option<T>) -> Result<T, String> {
        let arguments: Json = serde_json::from_str(&self.arguments)
            .map_err(|error| format!("the arguments are not JSON ({error}); write {{\"{name}\": …}}"))?;
        let object =
            arguments.as_object().ok_or_else(|| format!("the arguments must be an object; write {{\"{name}\": …}}"))?;
        let value = object.get(name).ok_or_else(|| {
            let given: Vec<&str> = object.keys().map(String::as_str).collect();
            format!(
                "argument `{name}` is missing; given: {}",
                if given.is_empty() { "none".into() } else { listed(&given) }
            )
        })?;
        read(value).ok_or_else(|| format!("argument `{name}` must be {wanted}, not {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_json_schema() {
        let parameters = Parameters::new().text("a", "first").integer("b", "second").optional();
        assert_eq!(
            Function::new("f", "d", parameters).parameters,
            r#"{"type":"object","properties":{"a":{"type":"string","description":"first"},"b":{"type":"integer","description":"second"}},"required":["a"]}"#
        );
    }

    #[test]
    fn arguments_are_read_or_explained() {
        let call = Call::advised("f", r#"{"a": "x", "b": 2}"#);
        assert_eq!(call.text("a"), Ok("x".into()));
        assert_eq!(call.integer("b"), Ok(2));
        assert_eq!(call.number("b"), Ok(2.0));
        assert!(call.has("a") && !call.has("c"));
        assert!(!Call::advised("f", r#"{"a": null}"#).has("a") && !Call::advised("f", "[]").has("a"));
        assert_eq!(call.text("b"), Err("argument `b` must be a string, not 2".into()));
        assert_eq!(call.text("c"), Err("argument `c` is missing; given: a, b".into()));
        assert!(Call::advised("f", "{").text("a").is_err_and(|message| message.contains("not JSON")));
        assert!(Call::advised("f", "[]").text("a").is_err_and(|message| message.contains("an object")));
    }
}
