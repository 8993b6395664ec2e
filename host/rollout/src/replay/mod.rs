//! Replays and forks: overrides of timing-dependent results, comparison, and copies of episodes.
//!
//! A replayed episode is compared with its record byte by byte.

pub(crate) mod agent_play;
pub(crate) mod fork;
pub(crate) mod overrides;
pub(crate) mod transcript;

use gymkhana_record::{Boundary, CallCost, CallSite, EpisodeRecord, Exchange, Failure, Phase, Timing};
use serde::Serialize;

/// The first difference between a record and its replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayDifference {
    /// Path in the record, such as `turns[3]`.
    pub place: String,
    /// Recorded value, as JSON.
    pub recorded: String,
    /// Replayed value, as JSON.
    pub replayed: String,
}

impl ReplayDifference {
    /// First difference between a record and its replay; `None` if all compared bytes are equal. Times and logs are not
    /// compared: a replay repeats fewer calls, and a log decides nothing. Neither are costs and outbound calls of plugin
    /// calls that a replay does not repeat: calls that ended by the clock, calls of an oracle, and scorings, of which
    /// there are fewer if a reward failed by the clock on some members. Costs of forks and of served episodes, which may have been parked, are not compared, because a copied
    /// instance starts in the middle of an episode and a replayed one at its start. States are not compared with a record
    /// without any: it was written before records had them.
    #[must_use]
    pub fn between(recorded: &EpisodeRecord, replayed: &EpisodeRecord) -> Option<Self> {
        let (left, mut right) = (timeless(recorded), timeless(replayed));
        if recorded.policy_turns.iter().all(|turn| turn.state.is_none()) {
            right.policy_turns.iter_mut().for_each(|turn| turn.state = None);
            let of_state = |exchange: &Exchange| matches!(exchange.call_site, CallSite::StateKey(_));
            // The early-stop rule read states at that time, too.
            let was_read = left.exchanges.iter().any(of_state);
            right.exchanges.retain(|exchange| was_read || !of_state(exchange));
        }
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
    let whole = record.forks.is_empty() && record.id.phase != Phase::Served;
    let mut costs: Vec<CallCost> = record.costs.iter().filter(again).filter(|_| whole).cloned().collect();
    costs.iter_mut().for_each(|call| call.cost.running_us = 0.0);
    EpisodeRecord { costs, exchanges, logs: vec![], timing: Timing::default(), ..record.clone() }
}

fn as_json(record: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(record).unwrap_or_else(|error| format!("cannot be written as JSON: {error}").into())
}

fn first_difference(place: &str, left: &serde_json::Value, right: &serde_json::Value) -> Option<ReplayDifference> {
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
        _ => {
            Some(ReplayDifference { place: place.to_owned(), recorded: left.to_string(), replayed: right.to_string() })
        }
    }
}
