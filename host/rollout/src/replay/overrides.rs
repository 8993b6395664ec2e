//! Recorded results that a replay uses: those of plugin calls, the time limit and the probe's scores.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gymkhana_driver::CallOverrides;
use gymkhana_record::{Boundary, CallSite, Ending, EpisodeRecord, Failure, ProbeScore};

use crate::replay::agent_play::AgentPlay;

/// Recorded results of an episode; empty for an episode that is not a replay.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayOverrides {
    /// Results of plugin calls.
    pub(crate) calls: Arc<CallOverrides>,
    /// Number of turns in the recorded episode; `None` if the episode is not a replay.
    turns: Option<u32>,
    /// Whether the recorded episode reached its time limit.
    out_of_time: bool,
    /// Whether the recorded episode reached its context limit.
    out_of_context: bool,
    /// What the agent program contributed, if one played the recorded episode.
    pub(crate) agent: Option<AgentPlay>,
    /// Scores of the probe, by seat and turn.
    probe_scores: HashMap<(u32, u32), ProbeScore>,
}

impl ReplayOverrides {
    /// The overrides for a replay of this record.
    #[must_use]
    pub(crate) fn of(record: &EpisodeRecord) -> Self {
        let probe_scores =
            record.policy_turns.iter().filter_map(|turn| Some(((turn.seat, turn.turn), turn.probe_score?)));
        Self {
            calls: Arc::new(CallOverrides::of(record)),
            turns: Some(turns_taken(record)),
            out_of_time: record.ending == Ending::TimeLimit,
            out_of_context: record.ending == Ending::ContextLimit,
            agent: AgentPlay::of(record),
            probe_scores: probe_scores.collect(),
        }
    }

    /// The oracle's failure that ended the recorded episode after `taken` turns.
    pub(crate) fn advice_failure(&self, at: &Boundary, taken: u32) -> Option<Failure> {
        self.calls.failure(at, &CallSite::Advise).filter(|_| self.turns == Some(taken))
    }

    /// Whether the recorded episode had no room for another reply after `taken` turns. The oracle's advice can exceed
    /// the context, and a replay does not ask for it.
    pub(crate) fn context_limit_after(&self, taken: u32) -> bool {
        self.out_of_context && self.turns == Some(taken)
    }

    /// Whether the episode is a replay.
    pub(crate) fn is_replay(&self) -> bool {
        self.turns.is_some()
    }

    /// The recorded score of the probe in a turn.
    pub(crate) fn probe_score(&self, seat: u32, turn: u32) -> Option<ProbeScore> {
        self.probe_scores.get(&(seat, turn)).copied()
    }

    /// Number of turns after which the recorded episode reached its time limit, `u32::MAX` if it did not; `None` if the
    /// episode is not a replay.
    pub(crate) fn time_limit_after(&self) -> Option<u32> {
        self.turns.map(|turns| if self.out_of_time { turns } else { u32::MAX })
    }
}

/// Number of turns of the policies. The turns of a seat are numbered through all of its segments.
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
