//! Compact JSON text that keeps the digits of its numbers.
//!
//! A JSON value of the usual kind holds numbers as 64-bit integers and floats, so that long integers and long fractions
//! would change. Here a number stays the text that the model wrote.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// Most levels of lists and objects.
pub(in crate::tool_call) const MAX_DEPTH: usize = 127;

/// The keys and values of a JSON object in their order. The last value of a repeated key counts.
#[derive(Debug, Default)]
pub(in crate::tool_call) struct Entries<'t>(pub Vec<(String, &'t RawValue)>);

impl<'t> Entries<'t> {
    /// Reads the text of an object.
    pub(in crate::tool_call) fn of(text: &'t str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of a key's value.
    pub(in crate::tool_call) fn get(&self, key: &str) -> Option<&'t str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.get())
    }
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Vec<(String, &'de RawValue)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
            match places.get(&key) {
                Some(place) => entries[*place].1 = value,
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push((key, value));
                }
            }
        }
        Ok(Entries(entries))
    }
}

/// Compact JSON text of a JSON text.
///
/// # Errors
/// The reason, for text that is not JSON, deeper than [`MAX_DEPTH`], or with a number that no float can hold.
pub(in crate::tool_call) fn compact(text: &str) -> Result<String, String> {
    let mut compact = String::with_capacity(text.len());
    let value: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
    push(value.get(), 0, &mut compact)?;
    Ok(compact)
}

fn push(text: &str, depth: usize, compact: &mut String) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("recursion limit exceeded".to_owned());
    }
    match text.bytes().next() {
        Some(b'{') => {
            compact.push('{');
            for (index, (key, value)) in read::<Entries<'_>>(text)?.0.iter().enumerate() {
                push_comma(index, compact);
                push_string(key, compact);
                compact.push(':');
                push(value.get(), depth + 1, compact)?;
            }
            compact.push('}');
        }
        Some(b'[') => {
            compact.push('[');
            for (index, value) in read::<Vec<&RawValue>>(text)?.iter().enumerate() {
                push_comma(index, compact);
                push(value.get(), depth + 1, compact)?;
            }
            compact.push(']');
        }
        Some(b'"') => push_string(&read::<String>(text)?, compact),
        Some(b'-' | b'0'..=b'9') => {
            read::<f64>(text)?;
            compact.push_str(text);
        }
        _ => compact.push_str(text),
    }
    Ok(())
}

fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn push_comma(index: usize, compact: &mut String) {
    if index > 0 {
        compact.push(',');
    }
}

/// Appends a text as a JSON string.
pub(in crate::tool_call) fn push_string(text: &str, json: &mut String) {
    json.push_str(&Json::from(text).to_string());
}

/// An object of arguments that is built entry by entry.
#[derive(Debug, Default)]
pub(in crate::tool_call) struct ObjectText {
    entries: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl ObjectText {
    /// Adds an entry whose value is JSON text. False if the key is there already; the entry is then left out.
    pub(in crate::tool_call) fn insert(&mut self, key: &str, value: String) -> bool {
        if self.places.contains_key(key) {
            return false;
        }
        self.places.insert(key.to_owned(), self.entries.len());
        self.entries.push((key.to_owned(), value));
        true
    }

    /// Whether the key has a value.
    pub(in crate::tool_call) fn contains(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// The JSON text of the object.
    pub(in crate::tool_call) fn finish(&self) -> String {
        let mut text = String::from("{");
        for (index, (key, value)) in self.entries.iter().enumerate() {
            push_comma(index, &mut text);
            push_string(key, &mut text);
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        text
    }
}
