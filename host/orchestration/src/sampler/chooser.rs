//! The sampler of one environment: chooses the tasks of a step by its kind, and remembers what the attempts showed.

use gymkhana_config::{AdaptiveTasks, DifficultyTasks, MixedOutcomeTasks, PrioritizedTasks, SamplerSection};
use gymkhana_record::Seed;

use super::choice::Choice;
use super::memory::{Attempts, SamplerMemory};
use super::prioritized::Draws;
use super::staged::Staged;
use super::{adaptive, difficulty, mixed_outcome};
use crate::error::{RunError, RunResult};
use crate::tasks::TaskOrder;
use gymkhana_rollout::PluginSet;

/// Choice of tasks that depends on earlier attempts.
pub(super) struct TaskChooser {
    kind: ChooserKind,
    memory: SamplerMemory,
}

/// Kinds of samplers with a memory.
enum ChooserKind {
    Difficulty(DifficultyTasks, TaskOrder),
    Adaptive(AdaptiveTasks, TaskOrder),
    MixedOutcome(MixedOutcomeTasks, TaskOrder),
    Prioritized(PrioritizedTasks, Draws),
    Staged(Staged),
}

impl TaskChooser {
    /// The chooser of a section; `None` for a kind without a memory.
    ///
    /// # Errors
    /// If the environment lacks a split, or the split is infinite and the section does not say how many tasks count.
    pub async fn of_section(
        section: &SamplerSection,
        plugins: &PluginSet,
        split: &str,
        seed: Seed,
        memory: SamplerMemory,
    ) -> RunResult<Option<Self>> {
        let mut orders = Vec::new();
        for (own_split, tasks) in parts(section) {
            let order = TaskOrder::of_run(plugins, own_split.unwrap_or(split), seed).await?.first(tasks)?;
            if order.count().is_none() && !matches!(section, SamplerSection::Staged(_)) {
                return Err(RunError::user(format!(
                    "the sampler remembers tasks, but split `{split}` of environment `{}` is infinite, so that no task \
                     would return",
                    plugins.environment().plugin.name()
                ))
                .with_hint("set `tasks` of the sampler to the number of tasks to train on"));
            }
            orders.push(order);
        }
        Ok(Self::of_orders(section, orders, seed, memory))
    }

    /// The chooser of a section with the order of each of its [`parts`]; `None` for a kind without a memory.
    pub fn of_orders(
        section: &SamplerSection,
        orders: Vec<TaskOrder>,
        seed: Seed,
        memory: SamplerMemory,
    ) -> Option<Self> {
        let mut orders = orders.into_iter();
        let kind = match section {
            SamplerSection::Sequential {} | SamplerSection::Shuffled {} | SamplerSection::Weighted(_) => return None,
            SamplerSection::Difficulty(own) => ChooserKind::Difficulty(*own, orders.next()?),
            SamplerSection::Adaptive(own) => ChooserKind::Adaptive(*own, orders.next()?),
            SamplerSection::MixedOutcome(own) => ChooserKind::MixedOutcome(*own, orders.next()?),
            SamplerSection::Prioritized(own) => ChooserKind::Prioritized(*own, Draws { order: orders.next()?, seed }),
            SamplerSection::Staged(own) => {
                ChooserKind::Staged(Staged::new(own.phases.iter().cloned().zip(orders).collect()))
            }
        };
        Some(Self { kind, memory })
    }

    /// The tasks of this number of groups, each of which has `group_size` attempts unless its task says otherwise.
    pub fn choose(&mut self, groups: usize, group_size: u32) -> Vec<Choice> {
        let memory = &mut self.memory;
        match &mut self.kind {
            ChooserKind::Difficulty(own, order) => difficulty::choose(own, order, memory, groups),
            ChooserKind::Adaptive(own, order) => adaptive::choose(own, order, memory, groups, group_size),
            ChooserKind::MixedOutcome(own, order) => mixed_outcome::choose(own, order, memory, groups, group_size),
            ChooserKind::Prioritized(own, draws) => draws.choose(own, memory, groups),
            ChooserKind::Staged(staged) => staged.choose(memory, groups),
        }
    }

    /// Notes that a step with chosen tasks begins.
    pub fn begin(&mut self) {
        self.memory.pending += 1;
    }

    /// Remembers the attempts of a step that has begun.
    pub fn observe(&mut self, attempts: &[&Attempts]) {
        let memory = &mut self.memory;
        memory.pending = memory.pending.saturating_sub(1);
        memory.steps += 1;
        let window = match &mut self.kind {
            ChooserKind::Difficulty(own, _) => own.attempts,
            ChooserKind::Adaptive(own, _) => own.attempts,
            ChooserKind::MixedOutcome(own, _) => own.attempts,
            ChooserKind::Prioritized(own, _) => own.attempts,
            ChooserKind::Staged(staged) => return staged.observe(memory, attempts),
        };
        let step = memory.steps;
        for attempts in attempts {
            memory.tasks.entry(attempts.index).or_default().add(attempts, window as usize, step);
        }
    }

    /// Number of tasks that rest at present; `None` if no task ever rests.
    pub fn resting(&self) -> Option<usize> {
        match &self.kind {
            ChooserKind::Difficulty(own, _) => Some(difficulty::resting(own, &self.memory)),
            _ => None,
        }
    }

    /// Index of the current phase; `None` without phases.
    pub fn phase(&self) -> Option<usize> {
        matches!(self.kind, ChooserKind::Staged(_)).then_some(self.memory.phase.index)
    }

    /// Its memory.
    pub fn memory(&self) -> &SamplerMemory {
        &self.memory
    }
}

/// The parts of a section with an order of their own: the split of each, where it names one, and the number of its
/// first tasks that count.
pub(super) fn parts(section: &SamplerSection) -> Vec<(Option<&str>, Option<u64>)> {
    match section {
        SamplerSection::Sequential {} | SamplerSection::Shuffled {} | SamplerSection::Weighted(_) => vec![],
        SamplerSection::Difficulty(own) => vec![(None, own.tasks)],
        SamplerSection::Adaptive(own) => vec![(None, own.tasks)],
        SamplerSection::MixedOutcome(own) => vec![(None, own.tasks)],
        SamplerSection::Prioritized(own) => vec![(None, own.tasks)],
        SamplerSection::Staged(own) => own.phases.iter().map(|phase| (phase.split.as_deref(), phase.tasks)).collect(),
    }
}
