//! Sums over episodes: endings, failures, calls, prompts.

use std::collections::BTreeMap;

use gymkhana_record::{Ending, EpisodeRecord, Segment, Turn};

use super::malformed::MalformedKinds;
use super::positions::PositionSums;
use super::times::TurnTimes;
use crate::named_counts::NamedCounts;
use crate::usual::NEAR_END;

/// Most functions that are told apart.
const MOST_FUNCTIONS: usize = 256;

/// Number of endings.
const ENDINGS: usize = Ending::ALL.len();

/// Use of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FunctionUse {
    /// Episodes that offered it.
    pub offered: u64,
    /// Calls.
    pub called: u64,
}

/// Sums over episodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct EpisodeSums {
    /// Episodes without dropped ones.
    pub played: u64,
    /// Episodes by ending, in the order of [`Ending::ALL`], dropped ones included.
    pub endings: [u64; ENDINGS],
    /// Those without success.
    pub unsolved: [u64; ENDINGS],
    /// Episodes with a failure, dropped ones included.
    pub failed: u64,
    /// Failures by owner and kind.
    pub failures: NamedCounts,
    /// Calls by function.
    pub functions: BTreeMap<String, FunctionUse>,
    /// Well-formed calls of functions that the seat has.
    pub calls: u64,
    /// All other calls.
    pub malformed: MalformedKinds,
    /// Episodes whose context length is known.
    pub with_context: u64,
    /// Those whose last prompt is near the end of the context.
    pub near_end: u64,
    /// Largest part of the context that a prompt filled, 0 to 1.
    pub fullest: f64,
    /// Surprise of the sampled tokens.
    pub positions: PositionSums,
    /// Times per turn.
    pub times: TurnTimes,
}

impl EpisodeSums {
    /// Adds an episode with a context length in tokens.
    pub fn add(&mut self, record: &EpisodeRecord, context: Option<u64>) {
        let ending = Ending::ALL.iter().position(|ending| *ending == record.ending).unwrap_or(0);
        self.endings[ending] += 1;
        self.unsolved[ending] += u64::from(!record.success);
        self.failed += u64::from(!record.failures.is_empty());
        for failure in &record.failures {
            self.failures.add(&format!("{}: {}", failure.at, failure.kind), 1);
        }
        if record.ending == Ending::Dropped {
            return;
        }
        self.played += 1;
        self.add_calls(record);
        self.add_prompts(record, context.filter(|context| *context > 0));
        self.times.add(record);
        record.segments.iter().for_each(|segment| self.positions.add(segment));
    }

    fn add_calls(&mut self, record: &EpisodeRecord) {
        for function in record.opening.functions.iter().flat_map(|seat| &seat.functions) {
            if let Some(known) = self.function(&function.name) {
                known.offered += 1;
            }
        }
        let before = self.malformed.total();
        self.malformed.add(&record.turns);
        let written = record.calls() as u64;
        self.calls += written.saturating_sub(self.malformed.total() - before);
        for turn in &record.turns {
            if let Turn::Call { call, .. } = turn
                && let Some(known) = self.functions.get_mut(&call.name)
            {
                known.called += 1;
            }
        }
    }

    fn function(&mut self, name: &str) -> Option<&mut FunctionUse> {
        if self.functions.len() < MOST_FUNCTIONS && !self.functions.contains_key(name) {
            self.functions.insert(name.to_owned(), FunctionUse::default());
        }
        self.functions.get_mut(name)
    }

    fn add_prompts(&mut self, record: &EpisodeRecord, context: Option<u64>) {
        let Some(context) = context else { return };
        let Some(longest) = record.segments.iter().filter_map(last_prompt).max() else { return };
        let part = longest as f64 / context as f64;
        self.with_context += 1;
        self.near_end += u64::from(part >= NEAR_END);
        self.fullest = self.fullest.max(part);
    }

    /// Adds the sums over other episodes.
    pub fn merge(&mut self, other: &Self) {
        self.played += other.played;
        for (own, more) in self.endings.iter_mut().zip(other.endings) {
            *own += more;
        }
        for (own, more) in self.unsolved.iter_mut().zip(other.unsolved) {
            *own += more;
        }
        self.failed += other.failed;
        self.failures.merge(&other.failures);
        for (name, more) in &other.functions {
            if let Some(own) = self.function(name) {
                own.offered += more.offered;
                own.called += more.called;
            }
        }
        self.calls += other.calls;
        self.malformed.merge(&other.malformed);
        self.with_context += other.with_context;
        self.near_end += other.near_end;
        self.fullest = self.fullest.max(other.fullest);
        self.positions.merge(&other.positions);
        self.times.merge(&other.times);
    }
}

/// Length of the prompt of a segment's last reply, in tokens; of a segment without replies, its length.
fn last_prompt(segment: &Segment) -> Option<usize> {
    segment.replies().last().map_or((!segment.is_empty()).then_some(segment.len()), |place| Some(place.start))
}
