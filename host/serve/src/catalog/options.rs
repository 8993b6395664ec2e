//! Options of environments from JSON, checked against what the plugin declares.

use gymkhana_driver::check_options;
use gymkhana_record::{NamedValue, Value};
use serde_json::{Map, Value as Json};

use super::ServedEnvironment;
use crate::error::{ErrorKind, ServeError};

/// Options of a JSON object, in the order of their names.
#[must_use]
pub fn named_values(options: &Map<String, Json>) -> Vec<NamedValue> {
    let value = |json: &Json| match json {
        Json::Bool(flag) => Value::Flag(*flag),
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            (None, Some(number)) => Value::Number(number),
            (None, None) => Value::Other(json.to_string()),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => Value::Other(json.to_string()),
    };
    let mut named: Vec<_> =
        options.iter().map(|(name, json)| NamedValue { name: name.clone(), value: value(json) }).collect();
    named.sort_by(|one, other| one.name.cmp(&other.name));
    named
}

/// Checks names, turns integers into numbers where the plugin declares a number, and leaves out the options that the
/// environment has anyway.
///
/// # Errors
/// If the plugin declares no option of a name.
pub(super) fn checked(
    environment: &ServedEnvironment,
    options: Vec<NamedValue>,
) -> Result<Vec<NamedValue>, ServeError> {
    let checked = check_options(environment.name(), options, environment.known_options());
    let mut checked = checked.map_err(|unknown| ServeError::agent(ErrorKind::UnknownName, unknown.to_string()))?;
    checked.retain(|option| !environment.options().contains(option));
    Ok(checked)
}
