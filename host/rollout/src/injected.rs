//! What a replay injects: failures and endings that the machine's clock decided when the episode was recorded.

use std::collections::BTreeMap;

use gymkhana_episode::{Boundary, Ending, EpisodeRecord, Failure};

/// Nothing for an episode that is played, and the clock's recorded decisions for one that is replayed.
#[derive(Debug, Clone, Default)]
pub struct Injected {
    failures: Vec<Failure>,
    time_limit_after: Option<u32>,
}

impl Injected {
    /// The decisions of a recorded episode.
    #[must_use]
    pub fn of(record: &EpisodeRecord) -> Self {
        let failures = record.failures.iter().filter(|failure| failure.kind.depends_on_time()).cloned().collect();
        let taken = if record.ending == Ending::TimeLimit { turns_taken(record) } else { u32::MAX };
        Self { failures, time_limit_after: Some(taken) }
    }

    /// The failure that was recorded here, if the clock decided it.
    pub(crate) fn failure(&self, at: &Boundary, during: &str) -> Option<Failure> {
        self.failures.iter().find(|failure| failure.at == *at && failure.during == during).cloned()
    }

    /// After how many turns the recorded episode ran out of time; none when the clock decides.
    pub(crate) fn time_limit_after(&self) -> Option<u32> {
        self.time_limit_after
    }
}

/// How many turns the policies took: a seat's turns are numbered through all of its segments.
fn turns_taken(record: &EpisodeRecord) -> u32 {
    let mut by_seat: BTreeMap<u32, u32> = BTreeMap::new();
    for segment in &record.segments {
        for index in (0..segment.len()).filter(|&index| segment.sampled[index]) {
            let taken = by_seat.entry(segment.seats[index]).or_default();
            *taken = (*taken).max(segment.turns[index] + 1);
        }
    }
    by_seat.values().sum()
}
