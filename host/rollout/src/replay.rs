//! Compares a replayed episode with its record, byte by byte of what plugins produced.

use gymkhana_episode::{EpisodeRecord, Timing};
use serde::Serialize;

/// Where a replay says something else than the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The part of the record, such as `turns[3]`.
    pub place: String,
    /// What was recorded, as JSON.
    pub recorded: String,
    /// What the replay gave, as JSON.
    pub replayed: String,
}

impl Difference {
    /// The first difference between a record and its replay; none when every byte is equal. Wall-clock times are
    /// not compared.
    #[must_use]
    pub fn between(recorded: &EpisodeRecord, replayed: &EpisodeRecord) -> Option<Self> {
        let (left, right) = (timeless(recorded), timeless(replayed));
        let (left, right) = (as_json(&left), as_json(&right));
        first_difference("", &left, &right)
    }
}

fn timeless(record: &EpisodeRecord) -> EpisodeRecord {
    EpisodeRecord { timing: Timing::default(), ..record.clone() }
}

fn as_json(record: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(record).unwrap_or_else(|error| format!("cannot be written as JSON: {error}").into())
}

fn first_difference(place: &str, left: &serde_json::Value, right: &serde_json::Value) -> Option<Difference> {
    use serde_json::Value::{Array, Object};
    match (left, right) {
        (Object(left), Object(right)) if left.len() == right.len() => left.iter().find_map(|(key, value)| {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            first_difference(&place, value, right.get(key).unwrap_or(&serde_json::Value::Null))
        }),
        (Array(left), Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(index, (left, right))| first_difference(&format!("{place}[{index}]"), left, right)),
        _ if left == right => None,
        _ => Some(Difference { place: place.to_owned(), recorded: left.to_string(), replayed: right.to_string() }),
    }
}
