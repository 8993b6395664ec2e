//! `staged`: phases with tasks and turn limits of their own, ended by training steps or by success.

use gymkhana_config::SamplerPhase;

use super::choice::{Choice, next_tasks};
use super::memory::{Attempts, CurriculumPhase, SamplerMemory};
use crate::tasks::TaskOrder;

/// Phases, each with the order of its tasks.
pub(super) struct Staged {
    phases: Vec<(SamplerPhase, TaskOrder)>,
}

impl Staged {
    /// At least one phase, each with the order of its tasks.
    pub fn new(phases: Vec<(SamplerPhase, TaskOrder)>) -> Self {
        Self { phases }
    }

    /// The next tasks of the current phase.
    pub fn choose(&mut self, memory: &mut SamplerMemory, groups: usize) -> Vec<Choice> {
        let last = self.phases.len().saturating_sub(1);
        let (phase, order) = &mut self.phases[memory.phase.index.min(last)];
        let tasks = next_tasks(order, &mut memory.next, groups);
        tasks.into_iter().map(|task| Choice { task, turns: phase.turns, attempts: None }).collect()
    }

    /// Counts a step for the current phase, and goes on to the next phase if this one has ended.
    pub fn observe(&mut self, memory: &mut SamplerMemory, attempts: &[&Attempts]) {
        let solved = attempts.iter().flat_map(|attempts| &attempts.solved);
        let (won, played) = solved.fold((0, 0), |sum, solved| (sum.0 + u64::from(*solved), sum.1 + 1));
        memory.phase.count(won, played);
        let last = self.phases.len().saturating_sub(1);
        let Some((phase, _)) = self.phases.get(memory.phase.index).filter(|_| memory.phase.index < last) else {
            return;
        };
        let enough_steps = phase.steps.is_some_and(|steps| memory.phase.steps >= steps);
        let enough_success = phase.success.zip(memory.phase.success()).is_some_and(|(goal, found)| found >= goal);
        if enough_steps || enough_success {
            memory.phase = CurriculumPhase {
                index: memory.phase.index + 1,
                earlier: memory.pending,
                ..CurriculumPhase::default()
            };
            memory.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;

    fn staged() -> Staged {
        let phase = |split: &str, turns, steps, success| {
            let order = TaskOrder::shuffled(split, Some(4), Seed(2));
            (SamplerPhase { turns, steps, success, ..SamplerPhase::default() }, order)
        };
        Staged::new(vec![
            phase("easy", Some(2), Some(3), None),
            phase("middle", None, None, Some(0.5)),
            phase("hard", Some(9), None, None),
        ])
    }

    fn step(solved: bool) -> Attempts {
        Attempts { environment: None, index: 0, solved: vec![solved, false], turns: vec![0, 0] }
    }

    /// Three steps, then five at a success of one half, then the last phase for good.
    #[test]
    fn phases_end_by_steps_or_success() {
        let (mut staged, mut memory) = (staged(), SamplerMemory::default());
        let mut phases = Vec::new();
        for _ in 0..20 {
            let choice = staged.choose(&mut memory, 2).remove(0);
            phases.push((choice.task.split, choice.turns));
            staged.observe(&mut memory, &[&step(true)]);
        }
        let expected = |(split, turns): (&str, Option<u32>), times| vec![(split.to_owned(), turns); times];
        let expected = [expected(("easy", Some(2)), 3), expected(("middle", None), 5), expected(("hard", Some(9)), 12)];
        assert_eq!(phases, expected.concat());
    }

    /// A step that was drawn in the first phase does not count as one of the second.
    #[test]
    fn steps_drawn_before_a_phase_do_not_count_for_it() {
        let (mut staged, mut memory) = (staged(), SamplerMemory { pending: 1, ..SamplerMemory::default() });
        (0..3).for_each(|_| staged.observe(&mut memory, &[&step(false)]));
        assert_eq!((memory.phase.index, memory.phase.steps, memory.phase.earlier), (1, 0, 1));
        staged.observe(&mut memory, &[&step(true)]);
        assert_eq!((memory.phase.steps, memory.phase.earlier), (0, 0));
        // 0 of 2 keeps the phase.
        (0..30).for_each(|_| staged.observe(&mut memory, &[&step(false)]));
        assert_eq!(memory.phase.index, 1);
    }
}
