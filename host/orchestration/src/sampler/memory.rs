//! What earlier attempts at the tasks of an environment showed.

use std::collections::BTreeMap;

use gymkhana_record::{Ending, EpisodeRecord};
use serde::{Deserialize, Serialize};

/// Steps over which a phase's success is averaged.
const RECENT_STEPS: usize = 5;

/// Attempts at one task in a training step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    /// Environment of the task; absent in a run with only one.
    pub environment: Option<String>,
    /// Index of the task in its split.
    pub index: u64,
    /// For each attempt, whether it solved the task.
    pub solved: Vec<bool>,
    /// For each attempt that solved it, the turns of the seat with the most turns; 0 for another attempt.
    pub turns: Vec<u32>,
}

impl Attempts {
    /// The attempts of a group, in the order of their numbers; `None` without a finished one.
    #[must_use]
    pub fn of(group: &[EpisodeRecord]) -> Option<Self> {
        let mut finished: Vec<&EpisodeRecord> =
            group.iter().filter(|record| record.ending != Ending::Dropped).collect();
        finished.sort_by_key(|record| (record.id.member, record.id.attempt));
        let first = finished.first()?;
        let solved = finished.iter().map(|record| record.success).collect();
        let turns = finished.iter().map(|record| if record.success { turns(record) } else { 0 }).collect();
        Some(Self { environment: first.environment.clone(), index: first.task.index, solved, turns })
    }
}

/// Turns of the seat with the most turns.
fn turns(record: &EpisodeRecord) -> u32 {
    let mut seats = BTreeMap::<u32, u32>::new();
    let actions = record.policy_turns.iter().filter(|turn| turn.note.is_none());
    actions.for_each(|turn| *seats.entry(turn.seat).or_default() += 1);
    seats.into_values().max().unwrap_or(0)
}

/// Memory of an environment's sampler.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerMemory {
    /// Next position in the order of tasks, or number of draws so far.
    pub next: u64,
    /// Training steps that have counted.
    pub steps: u64,
    /// Training steps that were drawn and have not counted yet.
    pub pending: u64,
    /// Current phase of `staged`.
    #[serde(default, skip_serializing_if = "CurriculumPhase::is_first")]
    pub phase: CurriculumPhase,
    /// Tasks by index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<u64, TaskMemory>,
}

/// Progress of a curriculum.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurriculumPhase {
    /// Index of the phase.
    pub index: usize,
    /// Training steps of the phase that have counted.
    pub steps: u64,
    /// Pending steps with tasks of an earlier phase.
    pub earlier: u64,
    /// Solved and all attempts of the last steps, the latest last.
    pub recent: Vec<(u64, u64)>,
}

/// Memory of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskMemory {
    /// Last attempts, the latest last: `1` for a solved one, `0` for another.
    pub outcomes: String,
    /// Training step of the last attempt, by [`SamplerMemory::steps`].
    pub last: u64,
    /// Turns of those of these attempts that solved the task, 0 for others, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<u32>,
    /// Turns of the longest of these attempts that solved the task; 0 without one.
    pub longest: u32,
}

impl CurriculumPhase {
    fn is_first(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a step. A step that was drawn before the phase does not count.
    pub fn count(&mut self, solved: u64, played: u64) {
        if self.earlier > 0 {
            self.earlier -= 1;
            return;
        }
        self.steps += 1;
        self.recent.push((solved, played));
        if self.recent.len() > RECENT_STEPS {
            self.recent.remove(0);
        }
    }

    /// Success rate of the last steps; `None` while there are fewer than five.
    #[must_use]
    pub fn success(&self) -> Option<f64> {
        let (solved, played) = self.recent.iter().fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
        (self.recent.len() == RECENT_STEPS && played > 0).then(|| solved as f64 / played as f64)
    }
}

impl TaskMemory {
    /// Adds attempts of a step, of which the last `window` count.
    pub fn add(&mut self, attempts: &Attempts, window: usize, step: u64) {
        self.outcomes.extend(attempts.solved.iter().map(|solved| if *solved { '1' } else { '0' }));
        // All characters have one byte.
        self.outcomes.drain(..self.outcomes.len().saturating_sub(window));
        self.last = step;
        self.turns.extend(&attempts.turns);
        self.turns.drain(..self.turns.len().saturating_sub(window));
        self.longest = self.turns.iter().copied().max().unwrap_or(0);
    }

    /// Number of attempts that count.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.outcomes.len()
    }

    /// Number of solved attempts among them.
    #[must_use]
    pub fn solved(&self) -> usize {
        solved(&self.outcomes)
    }

    /// Success rate, 0 to 1; `None` without attempts.
    #[must_use]
    pub fn success(&self) -> Option<f64> {
        rate(&self.outcomes)
    }

    /// Change of the success rate from the older to the newer half of the attempts, 0 to 1 without its sign; `None` for
    /// fewer than two attempts.
    #[must_use]
    pub fn progress(&self) -> Option<f64> {
        let (older, newer) = self.outcomes.split_at_checked(self.outcomes.len() / 2)?;
        Some((rate(newer)? - rate(older)?).abs())
    }
}

fn solved(outcomes: &str) -> usize {
    outcomes.bytes().filter(|outcome| *outcome == b'1').count()
}

fn rate(outcomes: &str) -> Option<f64> {
    (!outcomes.is_empty()).then(|| solved(outcomes) as f64 / outcomes.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(solved: &[bool]) -> Attempts {
        let turns = solved.iter().map(|solved| u32::from(*solved) * 3).collect();
        Attempts { environment: None, index: 0, solved: solved.to_vec(), turns }
    }

    /// The last four of 0 1 1 0 0 are 1 1 0 0: half of them solved, and the newer half worse by 1.
    #[test]
    fn only_the_last_attempts_count() {
        let mut memory = TaskMemory::default();
        assert_eq!((memory.success(), memory.progress()), (None, None));
        memory.add(&attempts(&[false, true]), 4, 7);
        memory.add(&attempts(&[true, false, false]), 4, 9);
        assert_eq!((memory.outcomes.as_str(), memory.last, memory.longest), ("1100", 9, 3));
        assert_eq!((memory.success(), memory.progress()), (Some(0.5), Some(1.0)));
    }

    /// Of solved attempts of 9, 4 and 2 turns, the first leaves a window of three with the third step.
    #[test]
    fn the_longest_attempt_is_that_of_the_last_attempts() {
        let mut memory = TaskMemory::default();
        let mut longest = |solved: &[bool], turns: &[u32]| {
            let (solved, turns) = (solved.to_vec(), turns.to_vec());
            memory.add(&Attempts { environment: None, index: 0, solved, turns }, 3, 1);
            memory.longest
        };
        assert_eq!(longest(&[true], &[9]), 9);
        assert_eq!(longest(&[true, false], &[4, 0]), 9);
        assert_eq!(longest(&[true], &[2]), 4);
        assert_eq!(longest(&[false, false, false], &[0, 0, 0]), 0);
    }

    #[test]
    fn a_phase_knows_its_success_after_five_steps_of_its_own() {
        let mut phase = CurriculumPhase { earlier: 1, ..CurriculumPhase::default() };
        phase.count(0, 4);
        for solved in [0, 2, 2, 4] {
            phase.count(solved, 4);
            assert_eq!(phase.success(), None);
        }
        phase.count(4, 4);
        // 0 + 2 + 2 + 4 + 4 of 20.
        assert_eq!((phase.steps, phase.success()), (5, Some(0.6)));
        phase.count(4, 4);
        assert_eq!(phase.success(), Some(0.8));
    }

    #[test]
    fn a_memory_is_read_back_unchanged() {
        let mut memory = SamplerMemory { next: 5, steps: 3, pending: 2, ..SamplerMemory::default() };
        memory.tasks.entry(12).or_default().add(&attempts(&[true, false]), 8, 2);
        memory.phase.count(1, 2);
        let text = serde_json::to_string(&memory).unwrap();
        assert_eq!(serde_json::from_str::<SamplerMemory>(&text).unwrap(), memory);
    }
}
