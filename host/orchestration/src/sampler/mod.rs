//! Tasks of training steps: those of the run's mixture, or those that samplers with a memory choose in their place.
//!
//! A step's tasks are drawn at once when it starts, and what its attempts showed counts when it is trained on. Choices
//! therefore do not depend on timing, and a state with the memories and the drawn tasks of unfinished steps is enough
//! to resume exactly.

mod adaptive;
mod choice;
mod chooser;
mod difficulty;
pub mod memory;
mod mixed_outcome;
mod prioritized;
mod staged;
pub(crate) mod weights;

use std::collections::BTreeMap;

use gymkhana_config::{EnvironmentSettings, SamplerSection};
use gymkhana_record::{Seed, StepMetrics, step_metrics::rl};
use gymkhana_rollout::PluginSet;
use serde::{Deserialize, Serialize};

use crate::environments::{Environments, RunEnvironment};
use crate::error::RunResult;
use crate::mixture::{DroppedEnvironment, TaskMixture};
use crate::scheduler::GroupTask;
use crate::tasks::TaskOrder;
use chooser::TaskChooser;
use memory::{Attempts, SamplerMemory};

/// What checkpoints hold of the samplers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerState {
    /// Memory by environment; that of a run with only one has an empty name.
    pub memories: BTreeMap<String, SamplerMemory>,
    /// Tasks of the steps that have begun and were not trained on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drawn: BTreeMap<u64, Vec<GroupTask>>,
}

impl SamplerState {
    /// Whether no sampler has a memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Tasks of a stage's steps.
pub struct TaskSampler {
    mixture: TaskMixture,
    /// The sampler of each environment that has one with a memory.
    choosers: Vec<Option<TaskChooser>>,
    /// Names of the environments.
    names: Vec<Option<String>>,
    drawn: BTreeMap<u64, Vec<GroupTask>>,
}

impl TaskSampler {
    /// The samplers of all environments as they were in `state`. `seed` is that of the run.
    ///
    /// # Errors
    /// If an environment lacks a split, or a sampler's settings do not fit its split.
    pub async fn open(
        mixture: TaskMixture,
        environments: &Environments,
        seed: Seed,
        mut state: SamplerState,
    ) -> RunResult<Self> {
        let (mut choosers, mut names) = (Vec::new(), Vec::new());
        for environment in environments.iter() {
            let name = environment.settings.name.clone();
            let memory = state.memories.remove(name.as_deref().unwrap_or_default()).unwrap_or_default();
            choosers.push(chooser_of(environment, seed, memory).await?);
            names.push(name);
        }
        Ok(Self { mixture, choosers, names, drawn: state.drawn })
    }

    /// The sampler of a run's only environment whose split `train` has this number of tasks, without plugins. Splits that the
    /// section names are ignored.
    ///
    /// # Errors
    /// If the section wants more tasks.
    pub fn without_plugins(section: &SamplerSection, tasks: u64, seed: Seed) -> RunResult<Self> {
        let order = || TaskOrder::shuffled("train", Some(tasks), seed);
        let orders = chooser::parts(section).into_iter().map(|(_, first)| order().first(first));
        let chooser =
            TaskChooser::of_orders(section, orders.collect::<RunResult<_>>()?, seed, SamplerMemory::default());
        let mixture = TaskMixture::new(vec![(order(), 1.0)], &[]);
        Ok(Self { mixture, choosers: vec![chooser], names: vec![None], drawn: BTreeMap::new() })
    }

    /// Sets the dropped environments.
    pub fn set_dropped(&mut self, dropped: &[DroppedEnvironment]) {
        self.mixture.set_dropped(dropped);
    }

    /// The tasks of a step, from `position` of the mixture on: the same number for each round of the step. A step that was drawn
    /// before has the same tasks again.
    pub fn draw(&mut self, step: u64, position: u64, rounds: &[u32], group_size: u32) -> Vec<GroupTask> {
        if let Some(drawn) = self.drawn.get(&step) {
            return drawn.clone();
        }
        let mut tasks = Vec::new();
        for groups in rounds {
            let mut round = self.mixture.take(position + tasks.len() as u64, u64::from(*groups));
            for (environment, chooser) in self.choosers.iter_mut().enumerate() {
                let own: Vec<&mut GroupTask> =
                    round.iter_mut().filter(|task| task.environment == environment).collect();
                if let Some(chooser) = chooser.as_mut().filter(|_| !own.is_empty()) {
                    let choices = chooser.choose(own.len(), group_size);
                    for (task, choice) in own.into_iter().zip(choices) {
                        (task.task, task.turns, task.attempts) = (choice.task, choice.turns, choice.attempts);
                    }
                }
            }
            tasks.extend(round);
        }
        if self.choosers.iter().any(Option::is_some) {
            for (environment, chooser) in self.choosers.iter_mut().enumerate() {
                if let Some(chooser) = chooser.as_mut().filter(|_| has(&tasks, environment)) {
                    chooser.begin();
                }
            }
            self.drawn.insert(step, tasks.clone());
        }
        tasks
    }

    /// Remembers the attempts of a step, in the order of their groups.
    pub fn observe(&mut self, step: u64, attempts: &[Attempts]) {
        let Some(tasks) = self.drawn.remove(&step) else { return };
        for (environment, chooser) in self.choosers.iter_mut().enumerate() {
            let Some(chooser) = chooser.as_mut().filter(|_| has(&tasks, environment)) else { continue };
            let own = attempts.iter().filter(|attempts| attempts.environment == self.names[environment]);
            chooser.observe(&own.collect::<Vec<_>>());
        }
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        let own = self.names.iter().zip(&self.choosers).filter_map(|(name, chooser)| {
            chooser.as_ref().map(|chooser| (name.clone().unwrap_or_default(), chooser.memory().clone()))
        });
        SamplerState { memories: own.collect(), drawn: self.drawn.clone() }
    }

    /// Figures of the samplers.
    #[must_use]
    pub fn metrics(&self) -> StepMetrics {
        let mut metrics = StepMetrics::default();
        for (name, chooser) in self.names.iter().zip(&self.choosers) {
            let Some(chooser) = chooser else { continue };
            let resting = chooser.resting().map(|tasks| (rl::TASKS_RESTING, tasks as f64));
            let phase = chooser.phase().map(|phase| (rl::SAMPLER_PHASE, phase as f64));
            let mut own = StepMetrics::default();
            resting.into_iter().chain(phase).for_each(|(metric, value)| own.push(metric, value));
            metrics.append(match name {
                Some(name) => own.of_environment(name),
                None => own,
            });
        }
        metrics
    }
}

fn has(tasks: &[GroupTask], environment: usize) -> bool {
    tasks.iter().any(|task| task.environment == environment)
}

/// The sampler of an environment; `None` for one without a memory.
async fn chooser_of(environment: &RunEnvironment, seed: Seed, memory: SamplerMemory) -> RunResult<Option<TaskChooser>> {
    let (settings, plugins) = (&environment.settings, environment.rollout.plugins());
    let (seed, split) = (environment.task_seed(seed), &settings.rules.environment.train);
    let opened = TaskChooser::of_section(&settings.sampler, plugins, split, seed, memory).await;
    opened.map_err(|error| environment.blame(error))
}

/// Order of an environment's training tasks under the run's seed.
///
/// # Errors
/// As [`TaskOrder::of_sampler`].
pub async fn training_order(environment: &RunEnvironment, seed: Seed) -> RunResult<TaskOrder> {
    let (settings, plugins) = (&environment.settings, environment.rollout.plugins());
    let (seed, split) = (environment.task_seed(seed), &settings.rules.environment.train);
    let order = TaskOrder::of_sampler(&settings.sampler, plugins, split, seed).await;
    order.map_err(|error| environment.blame(error))
}

/// Rejects a sampler whose settings do not fit the environment's splits or its file.
///
/// # Errors
/// Names the first such setting.
pub async fn check(settings: &EnvironmentSettings, plugins: &PluginSet) -> RunResult<()> {
    let (sampler, split) = (&settings.sampler, &settings.rules.environment.train);
    TaskOrder::of_sampler(sampler, plugins, split, Seed(0)).await?;
    TaskChooser::of_section(sampler, plugins, split, Seed(0), SamplerMemory::default()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samplers of two environments, the first with a memory.
    fn samplers(state: SamplerState) -> TaskSampler {
        let order = || TaskOrder::shuffled("train", Some(7), Seed(4));
        let mixture = TaskMixture::new(vec![(order(), 2.0), (order(), 1.0)], &[]);
        let section = gymkhana_config::DifficultyTasks { attempts: 2, max: 0.5, readmit: 3, ..Default::default() };
        let memory = state.memories.get("lake").cloned().unwrap_or_default();
        let section = SamplerSection::Difficulty(section);
        let choosers = vec![TaskChooser::of_orders(&section, vec![order()], Seed(4), memory), None];
        let names = ["lake", "stories"].map(|name| Some(name.to_owned())).to_vec();
        TaskSampler { mixture, choosers, names, drawn: state.drawn }
    }

    /// Attempts at the tasks of a step: two thirds of all tasks are solved.
    fn attempts(tasks: &[GroupTask]) -> Vec<Attempts> {
        let of = |task: &GroupTask| Attempts {
            environment: Some(if task.environment == 0 { "lake" } else { "stories" }.to_owned()),
            index: task.task.index,
            solved: vec![!task.task.index.is_multiple_of(3); 2],
            turns: vec![1; 2],
        };
        tasks.iter().map(of).collect()
    }

    /// Plays steps `from..to`, of which `ahead` are drawn before they are due, as the prefetcher does.
    fn play(samplers: &mut TaskSampler, from: u64, to: u64, ahead: u64) -> Vec<Vec<GroupTask>> {
        let mut steps = Vec::new();
        for step in from..to {
            for begun in step..=step + ahead {
                samplers.draw(begun, begun * 4, &[3, 1], 8);
            }
            let tasks = samplers.draw(step, step * 4, &[3, 1], 8);
            samplers.observe(step, &attempts(&tasks));
            steps.push(tasks);
        }
        steps
    }

    #[test]
    fn a_state_resumes_exactly_with_steps_in_flight() {
        for ahead in [0, 2] {
            let whole = play(&mut samplers(SamplerState::default()), 0, 12, ahead);
            for stop in 1..12 {
                let mut first = samplers(SamplerState::default());
                let mut steps = play(&mut first, 0, stop, ahead);
                let text = serde_json::to_string(&first.state()).unwrap();
                let state: SamplerState = serde_json::from_str(&text).unwrap();
                assert_eq!(state.drawn.len() as u64, ahead, "steps in flight");
                steps.extend(play(&mut samplers(state), stop, 12, ahead));
                assert_eq!(steps, whole, "stopped after step {stop}, {ahead} steps ahead");
            }
        }
    }

    /// What is drawn two steps ahead knows less, so that it differs; the environment without a memory does not.
    #[test]
    fn only_the_environment_with_a_memory_depends_on_attempts() {
        let (now, later) = (
            play(&mut samplers(SamplerState::default()), 0, 12, 0),
            play(&mut samplers(SamplerState::default()), 0, 12, 2),
        );
        let of = |steps: &[Vec<GroupTask>], environment| -> Vec<GroupTask> {
            steps.concat().into_iter().filter(|task| task.environment == environment).collect()
        };
        assert_ne!(of(&now, 0), of(&later, 0));
        assert_eq!(of(&now, 1), of(&later, 1));
        // Two of three groups, whatever the samplers choose.
        assert_eq!((of(&now, 0).len(), of(&now, 1).len()), (32, 16));
    }
}
