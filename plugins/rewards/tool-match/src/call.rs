//! Call with its function's name and arguments, for comparison.

use gymkhana_sdk::Error;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// Maximum number of expected calls.
const MAX_EXPECTED: usize = 256;

/// Actual or expected call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Name of the function.
    pub name: String,
    /// Arguments by parameter name.
    #[serde(default)]
    pub arguments: Map<String, Json>,
}

impl Call {
    /// Call of an agent; `None` if it is malformed: without a name, or with arguments that are not an object.
    pub fn made(name: &str, arguments: &str) -> Option<Self> {
        let arguments = serde_json::from_str(arguments).ok()?;
        (!name.is_empty()).then(|| Self { name: name.to_owned(), arguments })
    }

    /// Expected calls of a task, from the JSON text of a list of `{"name": …, "arguments": {…}}`.
    pub fn expected(text: &str, key: &str) -> Result<Vec<Self>, Error> {
        let calls: Vec<Self> = serde_json::from_str(text).map_err(|error| {
            let form = "write a JSON list of {\"name\": …, \"arguments\": {…}}";
            Error::invalid(format!("the privileged `{key}` is not a list of calls ({error}): {form}"))
        })?;
        if calls.len() > MAX_EXPECTED {
            let count = calls.len();
            return Err(Error::invalid(format!(
                "the privileged `{key}` has {count} calls: expect at most {MAX_EXPECTED}"
            )));
        }
        Ok(calls)
    }
}

/// Whether two values are equal. Numbers are compared by value, so 1 equals 1.0. The order of an object's fields is
/// ignored, that of a list counts.
pub fn same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => {
            one == other || (mixed(one, other) && one.as_f64() == other.as_f64())
        }
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            let twin = |(name, value): (&String, &Json)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(twin)
        }
        (one, other) => one == other,
    }
}

/// Compares an integer with a float. Two integers are compared exactly, because large ones would collide as floats.
fn mixed(one: &serde_json::Number, other: &serde_json::Number) -> bool {
    one.is_f64() != other.is_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_compared_by_content() {
        for (one, other, expected) in [
            (json!(1), json!(1.0), true),
            (json!(1), json!(1.5), false),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64), false),
            (json!(1), json!("1"), false),
            (json!(1), json!(true), false),
            (json!({"a": 1, "b": [2]}), json!({"b": [2.0], "a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!([1, 2]), json!([2, 1]), false),
            (json!(null), json!(null), true),
        ] {
            assert_eq!((same(&one, &other), same(&other, &one)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn malformed_calls_are_rejected() {
        assert!(Call::made("f", r#"{"a": 1}"#).is_some());
        assert!(Call::made("", r#"{"a": 1}"#).is_none());
        for arguments in ["", "[1]", "{", "7"] {
            assert!(Call::made("f", arguments).is_none(), "{arguments}");
        }
        let deep = "[".repeat(100_000);
        assert!(Call::made("f", &deep).is_none(), "a depth that no parser follows");
    }

    #[test]
    fn malformed_expectations_are_explained() {
        let calls = Call::expected(r#"[{"name": "f"}, {"name": "g", "arguments": {"x": 1}}]"#, "calls");
        assert_eq!(calls.map(|calls| calls.len()), Ok(2));
        for wrong in ["", "{}", r#"[{"nome": "f"}]"#, r#"[{"name": "f", "arguments": []}]"#] {
            let refused = Call::expected(wrong, "calls");
            assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`calls`")), "{wrong}");
        }
    }
}
