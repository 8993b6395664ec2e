//! Compares a replayed episode with its record, byte by byte.

use gymkhana_record::{Boundary, CallCost, CallSite, EpisodeRecord, Exchange, Failure, Timing};
use serde::Serialize;

/// The first difference between a record and its replay.
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
    /// The first difference between a record and its replay; none when every byte is equal. Times are not compared, nor is
    /// what a call used, or asked the world, that a replay does not make again: one that ended by the machine's clock, one that asked an
    /// oracle, and one of a reward, which is asked less often where the clock decided on whom it failed. What a fork's
    /// calls used is not compared either: a copied instance began in the midst of things, and a replayed one at the start.
    #[must_use]
    pub fn between(recorded: &EpisodeRecord, replayed: &EpisodeRecord) -> Option<Self> {
        let (left, right) = (timeless(recorded), timeless(replayed));
        let (left, right) = (as_json(&left), as_json(&right));
        first_difference("", &left, &right)
    }
}

fn timeless(record: &EpisodeRecord) -> EpisodeRecord {
    let again = |cost: &&CallCost| {
        let failed = |failure: &Failure| failure.at == cost.at && failure.call_site == cost.call_site;
        let once = cost.call_site == CallSite::Advise || matches!(cost.at, Boundary::Reward(_));
        !once && !record.failures.iter().any(|failure| failed(failure) && failure.kind.depends_on_time())
    };
    let clock = |at: &Boundary, site: &CallSite| {
        let there = |failure: &Failure| failure.call_site == *site || matches!(at, Boundary::Reward(_));
        record.failures.iter().any(|failure| failure.kind.depends_on_time() && failure.at == *at && there(failure))
    };
    let asked_again =
        |exchange: &&Exchange| exchange.call_site != CallSite::Advise && !clock(&exchange.at, &exchange.call_site);
    let exchanges = record.exchanges.iter().filter(asked_again).cloned().collect();
    let whole = record.forks.is_empty();
    let mut costs: Vec<CallCost> = record.costs.iter().filter(again).filter(|_| whole).cloned().collect();
    costs.iter_mut().for_each(|call| call.cost.running_us = 0.0);
    EpisodeRecord { costs, exchanges, timing: Timing::default(), ..record.clone() }
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
