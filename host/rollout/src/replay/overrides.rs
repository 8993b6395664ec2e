//! Recorded results that a replay uses instead of making a call: answers to outbound calls, failures and endings that
//! depended on the clock, and failures of an oracle, which a replay does not ask.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use gymkhana_record::{Boundary, CallCost, CallSite, Cost, Ending, EpisodeRecord, Exchange, Failure, ProbeScore};

/// Nothing for an episode that is played, and what is not to be found out again for one that is replayed.
#[derive(Debug, Clone, Default)]
pub struct ReplayOverrides {
    failures: Vec<Failure>,
    /// What the calls that ended in them had used.
    costs: Vec<CallCost>,
    /// What plugins were answered, and whether in a call that is not made again.
    exchanges: Vec<(Exchange, bool)>,
    /// How many turns were taken in the recorded episode; none for one that is played.
    turns: Option<u32>,
    /// The recorded episode ran out of time.
    out_of_time: bool,
    /// What the probe found in it, by seat and turn.
    probe_scores: HashMap<(u32, u32), ProbeScore>,
}

impl ReplayOverrides {
    /// What is overrides into the replay of a recorded episode.
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

    /// Nothing.
    pub(crate) fn nothing() -> Arc<Self> {
        Arc::default()
    }

    /// The failure that was recorded here, if it is to be overrides.
    pub(crate) fn failure(&self, at: &Boundary, site: &CallSite) -> Option<Failure> {
        self.failures.iter().find(|failure| failure.at == *at && failure.call_site == *site).cloned()
    }

    /// What the call had used whose recorded failure is overrides here.
    pub(crate) fn cost(&self, at: &Boundary, site: &CallSite) -> Option<Cost> {
        self.costs.iter().find(|call| call.at == *at && call.call_site == *site).map(|call| call.cost)
    }

    /// What this plugin is answered, in order; none where the world itself is asked. What stands beside an exchange says
    /// whether it belongs to a call that is not made again.
    pub(crate) fn exchanges(&self, at: &Boundary) -> Option<VecDeque<(Exchange, bool)>> {
        self.turns.map(|_| self.exchanges.iter().filter(|(exchange, _)| exchange.at == *at).cloned().collect())
    }

    /// The failure with which the oracle ended the recorded episode after so many turns.
    pub(crate) fn advice_failure(&self, at: &Boundary, taken: u32) -> Option<Failure> {
        self.failure(at, &CallSite::Advise).filter(|_| self.turns == Some(taken))
    }

    /// Whether a recorded episode is played again.
    pub(crate) fn is_replay(&self) -> bool {
        self.turns.is_some()
    }

    /// What the probe found in this turn of the recorded episode.
    pub(crate) fn probe_score(&self, seat: u32, turn: u32) -> Option<ProbeScore> {
        self.probe_scores.get(&(seat, turn)).copied()
    }

    /// After how many turns the recorded episode ran out of time, if ever; none when the clock decides.
    pub(crate) fn time_limit_after(&self) -> Option<u32> {
        self.turns.map(|turns| if self.out_of_time { turns } else { u32::MAX })
    }
}

/// How many turns the policies took: a seat's turns are numbered through all of its segments.
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
