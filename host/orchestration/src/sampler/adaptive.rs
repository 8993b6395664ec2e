//! `adaptive`: fewer and shorter attempts at tasks that are mostly solved.

use gymkhana_config::AdaptiveTasks;

use super::choice::{Choice, next_tasks};
use super::memory::{SamplerMemory, TaskMemory};
use crate::tasks::TaskOrder;

/// The next tasks in order, each with its number of attempts and its turn limit.
pub(super) fn choose(
    own: &AdaptiveTasks,
    order: &mut TaskOrder,
    memory: &mut SamplerMemory,
    groups: usize,
    group_size: u32,
) -> Vec<Choice> {
    let tasks = next_tasks(order, &mut memory.next, groups);
    let choice = |task: gymkhana_record::TaskRef| {
        let known = memory.tasks.get(&task.index);
        let attempts = known.and_then(|known| attempts(own, known, group_size));
        Choice { attempts, turns: known.and_then(|known| turns(own, known)), task }
    };
    tasks.into_iter().map(choice).collect()
}

/// Attempts at a task: `group_size` up to the success rate `from`, then along a line down to `fewest`, rounded up;
/// `None` for a task with too few attempts.
fn attempts(own: &AdaptiveTasks, known: &TaskMemory, group_size: u32) -> Option<u32> {
    let success = known.success().filter(|_| known.attempts() >= own.attempts as usize)?;
    let share = ((1.0 - success) / (1.0 - own.from)).min(1.0);
    let above = f64::from(group_size.saturating_sub(own.fewest)) * share;
    Some(own.fewest + above.ceil() as u32)
}

/// Turn limit of a task that was solved.
fn turns(own: &AdaptiveTasks, known: &TaskMemory) -> Option<u32> {
    let limited = own.turns > 0.0 && known.longest > 0;
    limited.then(|| (f64::from(known.longest) * own.turns).ceil() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(outcomes: &str, longest: u32) -> TaskMemory {
        TaskMemory { outcomes: outcomes.to_owned(), last: 1, longest, ..TaskMemory::default() }
    }

    /// With `from = 0.5`, `fewest = 2` and groups of 8: 2 + 6 (1 - p) / 0.5, so 8 at 0.5, 5 at 0.75, 2 at 1.
    #[test]
    fn attempts_fall_with_success() {
        let own = AdaptiveTasks { tasks: None, attempts: 4, fewest: 2, from: 0.5, turns: 1.5 };
        for (outcomes, expected) in
            [("111", None), ("0000", Some(8)), ("0011", Some(8)), ("0111", Some(5)), ("1111", Some(2))]
        {
            assert_eq!(attempts(&own, &known(outcomes, 0), 8), expected, "{outcomes}");
        }
    }

    #[test]
    fn the_longest_solved_attempt_limits_turns() {
        let own = AdaptiveTasks::default();
        assert_eq!(turns(&own, &known("01", 3)), Some(5), "4.5, rounded up");
        assert_eq!(turns(&own, &known("00", 0)), None, "never solved");
        assert_eq!(turns(&AdaptiveTasks { turns: 0.0, ..own }, &known("01", 3)), None);
    }
}
