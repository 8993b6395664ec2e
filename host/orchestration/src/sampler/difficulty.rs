//! `difficulty`: tasks whose success is outside of bounds rest.

use gymkhana_config::DifficultyTasks;

use super::choice::Choice;
use super::memory::{SamplerMemory, TaskMemory};
use crate::tasks::TaskOrder;

/// The next tasks in order without resting ones. If there are too few, those that have rested longest follow.
pub(super) fn choose(
    own: &DifficultyTasks,
    order: &mut TaskOrder,
    memory: &mut SamplerMemory,
    groups: usize,
) -> Vec<Choice> {
    let pass = order.count().unwrap_or(u64::MAX);
    let (mut chosen, mut resting) = (Vec::new(), Vec::new());
    let mut seen = std::collections::BTreeSet::new();
    while chosen.len() < groups && (seen.len() as u64) < pass {
        let task = order.at(memory.next);
        memory.next += 1;
        if !seen.insert(task.index) {
            continue;
        }
        match memory.tasks.get(&task.index).filter(|known| rests(own, known, memory.steps)) {
            Some(known) => resting.push((known.last, task)),
            None => chosen.push(task),
        }
    }
    resting.sort_by_key(|(last, _)| *last);
    chosen.extend(resting.into_iter().map(|(_, task)| task).take(groups - chosen.len()));
    while chosen.len() < groups {
        chosen.push(order.at(memory.next));
        memory.next += 1;
    }
    chosen.into_iter().map(Choice::from).collect()
}

/// Number of tasks that rest after this many steps.
pub(super) fn resting(own: &DifficultyTasks, memory: &SamplerMemory) -> usize {
    memory.tasks.values().filter(|known| rests(own, known, memory.steps)).count()
}

fn rests(own: &DifficultyTasks, known: &TaskMemory, steps: u64) -> bool {
    let outside = known.success().is_some_and(|success| success < own.min || success > own.max);
    let returns = own.readmit > 0 && steps - known.last >= own.readmit;
    outside && known.attempts() >= own.attempts as usize && !returns
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_record::Seed;

    /// Memory after one step, in which the tasks had these outcomes.
    fn memory(tasks: &[(u64, &str)]) -> SamplerMemory {
        let known = |(index, outcomes): &(u64, &str)| {
            (*index, TaskMemory { outcomes: (*outcomes).to_owned(), last: 1, ..TaskMemory::default() })
        };
        SamplerMemory { steps: 1, tasks: tasks.iter().map(known).collect(), ..SamplerMemory::default() }
    }

    fn indices(choices: &[Choice]) -> Vec<u64> {
        let mut indices: Vec<u64> = choices.iter().map(|choice| choice.task.index).collect();
        indices.sort_unstable();
        indices
    }

    const OWN: DifficultyTasks = DifficultyTasks { tasks: None, attempts: 4, min: 0.25, max: 0.75, readmit: 3 };

    /// Of five tasks, 0 is always solved, 1 never, 2 at the lower bound, 3 has too few attempts, 4 is unknown.
    #[test]
    fn tasks_outside_of_the_bounds_rest_and_return() {
        let mut order = TaskOrder::shuffled("train", Some(5), Seed(3));
        let mut memory = memory(&[(0, "1111"), (1, "0000"), (2, "0100"), (3, "111")]);
        assert_eq!(resting(&OWN, &memory), 2);
        for _ in 0..20 {
            assert_eq!(indices(&choose(&OWN, &mut order, &mut memory, 3)), [2, 3, 4]);
        }
        memory.steps = 4;
        assert_eq!(resting(&OWN, &memory), 0, "three steps after the last attempt");
        assert_eq!(indices(&choose(&OWN, &mut order, &mut memory, 5)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn those_that_rested_longest_return_early_where_too_few_are_left() {
        let mut order = TaskOrder::shuffled("train", Some(4), Seed(3));
        let mut memory = memory(&[(0, "1111"), (1, "1111"), (2, "1111"), (3, "0110")]);
        memory.steps = 3;
        if let Some(known) = memory.tasks.get_mut(&0) {
            known.last = 2;
        }
        if let Some(known) = memory.tasks.get_mut(&2) {
            known.last = 3;
        }
        let forever = DifficultyTasks { readmit: 0, ..OWN };
        for _ in 0..10 {
            let chosen: Vec<u64> =
                choose(&forever, &mut order, &mut memory, 3).iter().map(|choice| choice.task.index).collect();
            assert_eq!(chosen, [3, 1, 0]);
        }
        // More groups than tasks: tasks are played twice.
        assert_eq!(choose(&forever, &mut order, &mut memory, 6).len(), 6);
    }
}
