//! Recorded results that a replay uses instead of calls: answers to outbound calls, failures and endings that depended
//! on the clock, and failures of an oracle, which a replay does not query.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use gymkhana_record::{Boundary, CallCost, CallSite, Cost, Ending, EpisodeRecord, Exchange, Failure, ProbeScore};

/// Results that a replayed episode takes from its record. Empty for an episode that is not a replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayOverrides {
    failures: Vec<Failure>,
    /// Costs of the calls that ended in these failures.
    costs: Vec<CallCost>,
    /// Recorded outbound calls, and whether each belongs to a plugin call that is not repeated.
    exchanges: Vec<(Exchange, bool)>,
    /// Number of turns of the recorded episode; `None` without a replay.
    turns: Option<u32>,
    /// Whether the recorded episode ended at its time limit.
    out_of_time: bool,
    /// Recorded probe scores by seat and turn.
    probe_scores: HashMap<(u32, u32), ProbeScore>,
}

impl ReplayOverrides {
    /// Overrides for the replay of a recorded episode.
    #[must_use]
    pub fn of(record: &EpisodeRecord) -> Self {
        let overrides = |failure: &&Failure| failure.kind.depends_on_time() || failure.call_site == CallSite::Advise;
        let failures: Vec<Failure> = record.failures.iter().filter(overrides).cloned().collect();
        let failed =
            |at: &Boundary, site: &CallSite| failures.iter().any(|one| one.at == *at && one.call_site == *site);
        let skipped =
            |exchange: &Exchange| exchange.call_site == CallSite::Advise || failed(&exchange.at, &exchange.call_site);
        let costs = record.costs.iter().filter(|call| failed(&call.at, &call.call_site)).cloned().collect();
        let exchanges = record.exchanges.iter().map(|exchange| (exchange.clone(), skipped(exchange))).collect();
        let probe_scores =
            record.policy_turns.iter().filter_map(|turn| Some(((turn.seat, turn.turn), turn.probe_score?)));
        Self {
            failures,
            costs,
            exchanges,
            turns: Some(turns_taken(record)),
            out_of_time: record.ending == Ending::TimeLimit,
            probe_scores: probe_scores.collect(),
        }
    }

    /// Overrides of an episode that is not a replay.
    pub(crate) fn nothing() -> Arc<Self> {
        Arc::default()
    }

    /// Recorded failure of this call, if the replay takes it over.
    pub(crate) fn failure(&self, at: &Boundary, site: &CallSite) -> Option<Failure> {
        self.failures.iter().find(|failure| failure.at == *at && failure.call_site == *site).cloned()
    }

    /// Recorded cost of a call whose failure the replay takes over.
    pub(crate) fn cost(&self, at: &Boundary, site: &CallSite) -> Option<Cost> {
        self.costs.iter().find(|call| call.at == *at && call.call_site == *site).map(|call| call.cost)
    }

    /// Recorded outbound calls of a plugin, in order; `None` if real calls are made. The flag tells whether a call
    /// belongs to a plugin call that is not repeated.
    pub(crate) fn exchanges(&self, at: &Boundary) -> Option<VecDeque<(Exchange, bool)>> {
        self.turns.map(|_| self.exchanges.iter().filter(|(exchange, _)| exchange.at == *at).cloned().collect())
    }

    /// Failure by which the oracle ended the recorded episode after `taken` turns.
    pub(crate) fn advice_failure(&self, at: &Boundary, taken: u32) -> Option<Failure> {
        self.failure(at, &CallSite::Advise).filter(|_| self.turns == Some(taken))
    }

    /// Whether the episode is a replay.
    pub(crate) fn is_replay(&self) -> bool {
        self.turns.is_some()
    }

    /// Recorded probe score of this turn.
    pub(crate) fn probe_score(&self, seat: u32, turn: u32) -> Option<ProbeScore> {
        self.probe_scores.get(&(seat, turn)).copied()
    }

    /// Number of turns after which the recorded episode reached its time limit (`u32::MAX` if it did not); `None` if
    /// the clock decides.
    pub(crate) fn time_limit_after(&self) -> Option<u32> {
        self.turns.map(|turns| if self.out_of_time { turns } else { u32::MAX })
    }
}

/// Number of turns of all seats. A seat's turns are numbered across its segments.
pub(crate) fn turns_taken(record: &EpisodeRecord) -> u32 {
    let mut by_seat: BTreeMap<u32, u32> = BTreeMap::new();
    for segment in &record.segments {
        let sampled = segment.turns().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled);
        if let Some(last) = sampled.map(|(turn, _)| *turn).max() {
            let taken = by_seat.entry(segment.seat()).or_default();
            *taken = (*taken).max(last + 1);
        }
    }
    by_seat.values().sum()
}
