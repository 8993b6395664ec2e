//! `prioritized`: draws tasks by their learning progress or by their failures.

use std::collections::BTreeSet;

use gymkhana_config::{PrioritizedTasks, Priority};
use gymkhana_record::Seed;

use super::choice::Choice;
use super::memory::{SamplerMemory, TaskMemory};
use crate::tasks::TaskOrder;

/// Draws for a group before a task may repeat within a step.
const TRIES: u32 = 64;

/// Draws from the first tasks of a split.
pub(super) struct Draws {
    /// Order of the tasks; only its split and its length count.
    pub order: TaskOrder,
    /// Seed of all draws.
    pub seed: Seed,
}

impl Draws {
    /// Draws a task for each group: with probability `even` one of all tasks, else one of the tried tasks in proportion
    /// to its priority. A step draws a task twice only if other tasks are hard to find.
    pub fn choose(&self, own: &PrioritizedTasks, memory: &mut SamplerMemory, groups: usize) -> Vec<Choice> {
        let tasks = self.order.count().unwrap_or(u64::MAX);
        let mut sums = Vec::new();
        let mut sum = 0.0;
        for (index, known) in &memory.tasks {
            sum += priority(own.by, known);
            sums.push((sum, *index));
        }
        let mut drawn = BTreeSet::new();
        let mut chosen = Vec::new();
        for _ in 0..groups {
            let mut stream = self.seed.child("prioritized").child(memory.next).stream();
            memory.next += 1;
            let mut draw = || {
                if sum <= 0.0 || stream.unit() < own.even {
                    return stream.below(tasks);
                }
                let target = stream.unit() * sum;
                let place = sums.partition_point(|(sum, _)| *sum <= target).min(sums.len() - 1);
                sums[place].1
            };
            let index = (0..TRIES).map(|_| draw()).find(|index| !drawn.contains(index)).unwrap_or_else(draw);
            drawn.insert(index);
            chosen.push(Choice::from(self.order.task(index)));
        }
        chosen
    }
}

/// Priority of a tried task, at least 0.
fn priority(by: Priority, known: &TaskMemory) -> f64 {
    match by {
        Priority::Progress => known.progress().unwrap_or(0.0),
        Priority::Failure => 1.0 - known.success().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(outcomes: &[&str]) -> SamplerMemory {
        let known = |outcomes: &&str| TaskMemory { outcomes: (*outcomes).to_owned(), last: 1, ..TaskMemory::default() };
        SamplerMemory { tasks: (0..).zip(outcomes.iter().map(known)).collect(), ..SamplerMemory::default() }
    }

    /// Share of 4,000 draws, one per step, that each of four tasks gets.
    fn shares(by: Priority, even: f64, memory: &mut SamplerMemory) -> [f64; 4] {
        let draws = Draws { order: TaskOrder::shuffled("train", Some(4), Seed(5)), seed: Seed(5) };
        let own = PrioritizedTasks { tasks: None, by, attempts: 8, even };
        let mut counts = [0.0; 4];
        for _ in 0..4000 {
            counts[draws.choose(&own, memory, 1)[0].task.index as usize] += 1.0 / 4000.0;
        }
        counts
    }

    fn near(found: [f64; 4], expected: [f64; 4]) {
        // Four standard deviations of a share of 1/2 are 0.032.
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.032), "{found:?}");
    }

    /// Failures 1, 1/2, 0 and none known; a fifth of the draws is even: 0.05 each, and 0.8 in the ratio 2 to 1.
    #[test]
    fn failures_are_drawn_in_proportion() {
        let found = shares(Priority::Failure, 0.2, &mut memory(&["0000", "0101", "1111"]));
        near(found, [0.05 + 0.8 * 2.0 / 3.0, 0.05 + 0.8 / 3.0, 0.05, 0.05]);
    }

    /// Changes of 1, 0, 1 and 0.
    #[test]
    fn changes_are_drawn_whatever_their_direction() {
        let found = shares(Priority::Progress, 0.2, &mut memory(&["0011", "0101", "1100", "1"]));
        near(found, [0.45, 0.05, 0.45, 0.05]);
    }

    #[test]
    fn without_any_priority_all_tasks_are_alike() {
        near(shares(Priority::Progress, 0.01, &mut memory(&["1111", "1111"])), [0.25; 4]);
    }

    #[test]
    fn a_step_has_each_task_once_where_it_can() {
        let draws = Draws { order: TaskOrder::shuffled("train", Some(4), Seed(5)), seed: Seed(5) };
        let own = PrioritizedTasks { tasks: None, by: Priority::Failure, attempts: 8, even: 1.0 };
        let mut memory = memory(&["0000"]);
        for _ in 0..50 {
            let chosen: BTreeSet<u64> =
                draws.choose(&own, &mut memory, 4).iter().map(|choice| choice.task.index).collect();
            assert_eq!(chosen.len(), 4);
        }
    }
}
