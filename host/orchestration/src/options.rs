//! Plugin options: conversion from TOML values to the contract's.

use gymkhana_record::{NamedValue, Value};

use crate::error::{RunError, RunResult};
use gymkhana_config::Options;

/// Options of a section for plugin `plugin`.
pub fn named_values(plugin: &str, options: &Options) -> RunResult<Vec<NamedValue>> {
    options
        .iter()
        .map(|(name, value)| {
            let value = match value {
                toml::Value::Boolean(flag) => Value::Flag(*flag),
                toml::Value::Integer(integer) => Value::Integer(*integer),
                toml::Value::Float(number) if number.is_finite() => Value::Number(*number),
                toml::Value::String(text) => Value::Text(text.clone()),
                toml::Value::Array(_) | toml::Value::Table(_) => {
                    let json = serde_json::to_string(value).map_err(RunError::user)?;
                    Value::Other(json)
                }
                toml::Value::Float(_) | toml::Value::Datetime(_) => {
                    return Err(RunError::user(format!(
                        "option `{name}` of plugin `{plugin}` is {value}\nhint: use a finite number, a text, true or \
                         false"
                    )));
                }
            };
            Ok(NamedValue { name: name.clone(), value })
        })
        .collect()
}
