//! Options of plugins: from Python values, checked against what the plugin declares.

use gymkhana_nearest::did_you_mean;
use gymkhana_record::{NamedValue, Value};
use gymkhana_sandbox::OptionInfo;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use crate::convert::to_value;
use crate::errors::Fault;

/// Reads options.
///
/// # Errors
/// If a value has no form for plugins.
pub fn read(options: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<NamedValue>> {
    let Some(options) = options.filter(|options| !options.is_none()) else { return Ok(vec![]) };
    let Ok(options) = options.cast::<PyMapping>() else {
        return Err(Fault::Option("`options` is not a mapping of names to values".to_owned()).into());
    };
    let mut read = Vec::new();
    for entry in options.items()?.iter() {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
        let name = name.cast::<PyString>().map_err(|_| Fault::Option("an option's name is not a str".to_owned()))?;
        let name = name.to_string_lossy().into_owned();
        let value = to_value(&format!("option `{name}`"), &value)?;
        read.push(NamedValue { name, value });
    }
    Ok(read)
}

/// Checks names, and turns integers into numbers where the plugin declares a number.
///
/// # Errors
/// If the plugin declares no option of a name.
pub fn checked(plugin: &str, options: Vec<NamedValue>, declared: &[OptionInfo]) -> Result<Vec<NamedValue>, Fault> {
    let known = || declared.iter().map(|option| option.name.as_str());
    let one = |option: NamedValue| {
        let NamedValue { name, value } = option;
        let Some(info) = declared.iter().find(|info| info.name == name) else {
            let listed = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let listed = if listed.is_empty() { "it has none".to_owned() } else { format!("it has {listed}") };
            let near = did_you_mean(&name, known());
            let message = format!("plugin `{plugin}` has no option `{name}`\nhint: {listed}{near}");
            return Err(Fault::Option(message));
        };
        let value = match (value, &info.default) {
            (Value::Integer(integer), Value::Number(_)) => Value::Number(integer as f64),
            (value, _) => value,
        };
        Ok(NamedValue { name, value })
    };
    options.into_iter().map(one).collect()
}
