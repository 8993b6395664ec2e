//! Typed access to the fields of a JSON body, with the path of a malformed field in the error.

use gymkhana_policy::kept_tokens;
use gymkhana_record::{Function, json_values_at_most};
use serde_json::{Map, Value as Json};

use super::error::{ApiError, ErrorClass};
use super::request::RequestedSampling;

/// A JSON object with its path in the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Json>,
    path: &'a str,
}

/// Most values of a body.
const MAX_VALUES: usize = 1 << 18;

/// Parses a body. Its values are counted before they are made.
pub(crate) fn parse_body(body: &[u8]) -> Result<Json, ApiError> {
    let malformed = |reason: &dyn std::fmt::Display| {
        ApiError::new(ErrorClass::Invalid, format!("invalid request: the body is not a JSON object: {reason}"))
    };
    if json_values_at_most(body) > MAX_VALUES {
        let message = format!("the body has more than {MAX_VALUES} JSON values\nhint: send fewer messages and tools");
        return Err(ApiError::new(ErrorClass::TooLarge, message));
    }
    match serde_json::from_slice(body) {
        Ok(json @ Json::Object(_)) => Ok(json),
        Ok(_) => Err(malformed(&"it is another value")),
        Err(error) => Err(malformed(&error)),
    }
}

impl<'a> Fields<'a> {
    /// The fields of a value; `path` is empty for the body itself.
    pub(crate) fn of(value: &'a Json, path: &'a str) -> Result<Self, ApiError> {
        match value {
            Json::Object(object) => Ok(Self { object, path }),
            _ => Err(ApiError::field(path, "must be an object")),
        }
    }

    /// Path of a field.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An error about a field.
    pub(crate) fn error(&self, key: &str, problem: impl std::fmt::Display) -> ApiError {
        ApiError::field(&self.path(key), problem)
    }

    /// A field; null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Json> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A field that must be present.
    pub(crate) fn require(&self, key: &str) -> Result<&'a Json, ApiError> {
        self.get(key).ok_or_else(|| self.error(key, "is missing"))
    }

    /// A text.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, ApiError> {
        self.get(key).map(|value| value.as_str().ok_or_else(|| self.error(key, "must be a string"))).transpose()
    }

    /// A text that must be present.
    pub(crate) fn required_text(&self, key: &str) -> Result<&'a str, ApiError> {
        self.text(key)?.ok_or_else(|| self.error(key, "is missing"))
    }

    /// True or false; absent is false.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, ApiError> {
        self.get(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| self.error(key, "must be true or false")))
    }

    /// A whole number from `least` up.
    pub(crate) fn count(&self, key: &str, least: u64) -> Result<Option<usize>, ApiError> {
        let read = |value: &Json| {
            let number = value.as_u64().filter(|number| *number >= least);
            number.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        self.get(key)
            .map(|value| read(value).ok_or_else(|| self.error(key, format!("must be a whole number from {least} up"))))
            .transpose()
    }

    /// A number in a range.
    pub(crate) fn number(&self, key: &str, range: std::ops::RangeInclusive<f64>) -> Result<Option<f32>, ApiError> {
        let read = |value: &Json| value.as_f64().filter(|number| range.contains(number)).map(|number| number as f32);
        let wanted = || format!("must be a number from {} to {}", range.start(), range.end());
        self.get(key).map(|value| read(value).ok_or_else(|| self.error(key, wanted()))).transpose()
    }

    /// A list; absent is empty.
    pub(crate) fn list(&self, key: &str) -> Result<&'a [Json], ApiError> {
        self.get(key).map_or(Ok(&[]), |value| {
            value.as_array().map(Vec::as_slice).ok_or_else(|| self.error(key, "must be a list"))
        })
    }

    /// Texts that end a reply: a string, or a list of strings.
    pub(crate) fn stop_texts(&self, key: &str) -> Result<Vec<String>, ApiError> {
        let wrong = || self.error(key, "must be a string or a list of strings that are not empty");
        match self.get(key) {
            None => Ok(vec![]),
            Some(Json::String(text)) if !text.is_empty() => Ok(vec![text.clone()]),
            Some(Json::Array(texts)) => {
                let text = |text: &Json| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                texts.iter().map(|one| text(one).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Sampling settings, which the three protocols name alike.
    pub(crate) fn sampling(&self) -> Result<RequestedSampling, ApiError> {
        let kept = |value: &Json| value.as_i64().and_then(kept_tokens);
        let wrong = || self.error("top_k", "must be a whole number from -1 up; -1 and 0 disable the cut");
        let top_k = self.get("top_k").map(|value| kept(value).ok_or_else(wrong)).transpose()?;
        let (temperature, top_p) = (self.number("temperature", 0.0..=2.0)?, self.number("top_p", 0.0..=1.0)?);
        Ok(RequestedSampling { temperature, top_p, top_k })
    }

    /// A function whose schema is in `schema`.
    pub(crate) fn function(&self, schema: &str) -> Result<Function, ApiError> {
        let parameters = match self.get(schema) {
            None => "{\"type\":\"object\",\"properties\":{}}".to_owned(),
            Some(Json::Object(object)) => Json::Object(object.clone()).to_string(),
            Some(_) => return Err(self.error(schema, "must be an object")),
        };
        let description = self.text("description")?.unwrap_or_default().to_owned();
        Ok(Function { name: self.required_text("name")?.to_owned(), description, parameters, cost: 0.0 })
    }
}

/// The text of a content: a string, or parts of which each is one of `kinds` with a `text`. Other parts are refused.
pub(crate) fn content_text(value: &Json, path: &str, kinds: &[&str]) -> Result<String, ApiError> {
    let parts = match value {
        Json::String(text) => return Ok(text.clone()),
        Json::Array(parts) => parts,
        _ => return Err(ApiError::field(path, "must be a string or a list of parts")),
    };
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{path}[{index}]");
        let part = Fields::of(part, &place)?;
        let kind = part.required_text("type")?;
        if !kinds.contains(&kind) {
            return Err(unsupported_part(&place, kind));
        }
        text.push_str(part.required_text(if kind == "refusal" { "refusal" } else { "text" })?);
    }
    Ok(text)
}

/// A part that the policy cannot read.
pub(crate) fn unsupported_part(place: &str, kind: &str) -> ApiError {
    ApiError::field(place, format!("is of the type `{kind}`, which this policy cannot read\nhint: send text only"))
}
