//! Values of a GGUF file by key, and what they say about its model.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;

use crate::error::Problem;

/// Sizes and settings of a model.
pub struct ModelKeys {
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub key_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// `config.json` without ids of tokens.
    pub config: serde_json::Map<String, serde_json::Value>,
}

/// Keys and values of a file.
pub struct Metadata<'a> {
    values: &'a HashMap<String, Value>,
}

impl<'a> Metadata<'a> {
    pub fn new(values: &'a HashMap<String, Value>) -> Self {
        Self { values }
    }

    /// Names of all keys.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.values.keys().map(String::as_str)
    }

    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        self.optional(key, "a text", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A whole number from 0 to `u32::MAX`.
    pub fn number(&self, key: &str) -> Result<Option<u32>, Problem> {
        self.optional(key, "a whole number", whole)
    }

    pub fn required_number(&self, key: &str) -> Result<u32, Problem> {
        self.number(key)?.ok_or_else(|| Problem::damaged(format!("key `{key}` is missing")))
    }

    /// A finite float32 number, as the decimal number that it was rounded from: 1e-5 instead of 9.99999974e-6.
    pub fn float(&self, key: &str) -> Result<Option<f64>, Problem> {
        self.optional(key, "a number", |value| match value {
            Value::F32(number) if number.is_finite() => number.to_string().parse().ok(),
            Value::F64(number) if number.is_finite() => Some(*number),
            _ => None,
        })
    }

    pub fn switch(&self, key: &str) -> Result<Option<bool>, Problem> {
        self.optional(key, "true or false", |value| value.to_bool().ok())
    }

    pub fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, Problem> {
        self.optional(key, "a list of texts", |value| {
            list(value)?.iter().map(|value| value.to_string().ok().map(String::as_str)).collect()
        })
    }

    pub fn numbers(&self, key: &str) -> Result<Option<Vec<u32>>, Problem> {
        self.optional(key, "a list of whole numbers", |value| list(value)?.iter().map(whole).collect())
    }

    pub fn floats(&self, key: &str) -> Result<Option<Vec<f32>>, Problem> {
        self.optional(key, "a list of numbers", |value| {
            list(value)?.iter().map(|value| value.to_f32().ok().filter(|number| !number.is_nan())).collect()
        })
    }

    fn optional<T>(
        &self,
        key: &str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| Problem::damaged(format!("key `{key}` is not {what}")))
    }
}

fn list(value: &Value) -> Option<&Vec<Value>> {
    value.to_vec().ok()
}

fn whole(value: &Value) -> Option<u32> {
    match *value {
        Value::U8(number) => Some(number.into()),
        Value::U16(number) => Some(number.into()),
        Value::U32(number) => Some(number),
        Value::U64(number) => number.try_into().ok(),
        Value::I8(number) => number.try_into().ok(),
        Value::I16(number) => number.try_into().ok(),
        Value::I32(number) => number.try_into().ok(),
        Value::I64(number) => number.try_into().ok(),
        _ => None,
    }
}
