//! Order of tasks: by default an infinite split in sequence, a finite one reshuffled in every pass.

use gymkhana_record::{Seed, TaskRef};
use gymkhana_registry::Capability;
use gymkhana_rollout::{PluginSet, TaskError};
use gymkhana_sandbox::SplitInfo;

use super::permutation::Permutation;
use crate::error::{Classify, RunError, RunResult};
use crate::sampler::weights;
use gymkhana_config::{SamplerSection, WeightedTasks};

/// Largest number of tasks whose order is a list, of 128 MiB.
const MAX_LISTED: u64 = 1 << 24;

/// Order of the tasks of a split.
pub struct TaskOrder {
    split: String,
    count: Option<u64>,
    seed: Seed,
    rule: OrderRule,
}

/// Rule of an order.
enum OrderRule {
    /// The tasks as the split has them.
    Sequential,
    /// All tasks in each pass, in an order of its own; an infinite split in its order. The last pass that was asked for is
    /// held.
    Shuffled(Option<(u64, PassOrder)>),
    /// Independent draws by these sums of weights.
    Weighted(Vec<f64>),
}

/// The order of one pass.
enum PassOrder {
    List(Vec<u64>),
    /// Of a split with more than [`MAX_LISTED`] tasks.
    Computed(Permutation),
}

impl PassOrder {
    fn new(count: u64, seed: Seed) -> Self {
        if count > MAX_LISTED {
            return Self::Computed(Permutation::new(count, seed));
        }
        let mut order: Vec<u64> = (0..count).collect();
        seed.stream().shuffle(&mut order);
        Self::List(order)
    }

    /// The index of the task at a place below the number of tasks.
    fn at(&self, place: u64) -> u64 {
        match self {
            Self::List(order) => order[place as usize],
            Self::Computed(permutation) => permutation.at(place),
        }
    }
}

impl TaskOrder {
    /// Shuffled order of a split's tasks under a run's seed.
    ///
    /// # Errors
    /// As [`count_tasks`].
    pub async fn of_run(plugins: &PluginSet, split: &str, seed: Seed) -> RunResult<Self> {
        let count = count_tasks(plugins, split).await?;
        Ok(Self { count, ..Self::shuffled(split, None, seed.child("tasks").child(split)) })
    }

    /// Order of a split's tasks by a sampler. Samplers with a memory have the shuffled order as their basis.
    ///
    /// # Errors
    /// As [`count_tasks`], or if the weights cannot be used.
    pub async fn of_sampler(sampler: &SamplerSection, plugins: &PluginSet, split: &str, seed: Seed) -> RunResult<Self> {
        let own = Self::of_run(plugins, split, seed).await?;
        match sampler {
            SamplerSection::Sequential {} => Ok(Self { rule: OrderRule::Sequential, ..own }),
            SamplerSection::Weighted(section) => own.weighted(section, plugins),
            _ => Ok(own),
        }
    }

    /// A shuffled order of this number of tasks.
    pub(crate) fn shuffled(split: &str, count: Option<u64>, seed: Seed) -> Self {
        Self { split: split.to_owned(), count, seed, rule: OrderRule::Shuffled(None) }
    }

    fn weighted(self, section: &WeightedTasks, plugins: &PluginSet) -> RunResult<Self> {
        let sums = weights::cumulative(section, &self.split)?;
        let (weights, split) = (sums.len() as u64, &self.split);
        if let Some(tasks) = self.count.filter(|tasks| *tasks != weights) {
            return Err(RunError::user(format!(
                "sampler.file `{}` has {weights} weights, but split `{split}` of environment `{}` has {tasks} tasks",
                section.file.display(),
                plugins.environment().plugin.name()
            ))
            .with_hint("give each task of the split one record, in their order"));
        }
        Ok(Self { count: Some(weights), rule: OrderRule::Weighted(sums), ..self })
    }

    /// The order of the first tasks of the split alone; all of them for `None`.
    ///
    /// # Errors
    /// If the split has fewer tasks.
    pub(crate) fn first(self, tasks: Option<u64>) -> RunResult<Self> {
        let Some(wanted) = tasks else { return Ok(self) };
        if let Some(count) = self.count.filter(|count| *count < wanted) {
            let message = format!("the sampler has tasks = {wanted}, but split `{}` has {count} tasks", self.split);
            return Err(RunError::user(message).with_hint(format!("lower `tasks` of the sampler to {count}")));
        }
        Ok(Self { count: Some(wanted), ..self })
    }

    /// Number of tasks; `None` for an infinite split.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    /// Tasks at `position..position + length` of the infinite sequence.
    pub fn take(&mut self, position: u64, length: u64) -> Vec<TaskRef> {
        (position..position + length).map(|position| self.at(position)).collect()
    }

    /// The task at a position of the infinite sequence.
    pub fn at(&mut self, position: u64) -> TaskRef {
        let seed = self.seed;
        let index = match (&mut self.rule, self.count) {
            (OrderRule::Weighted(sums), _) => {
                let target = seed.child(position).stream().unit() * sums.last().copied().unwrap_or_default();
                sums.partition_point(|sum| *sum <= target) as u64
            }
            (_, None) => position,
            (OrderRule::Sequential, Some(count)) => position % count,
            (OrderRule::Shuffled(held), Some(count)) => {
                let (pass, place) = (position / count, position % count);
                match held {
                    Some((held, order)) if *held == pass => order.at(place),
                    _ => held.insert((pass, PassOrder::new(count, seed.child(pass)))).1.at(place),
                }
            }
        };
        self.task(index)
    }

    /// The task with this index.
    pub(crate) fn task(&self, index: u64) -> TaskRef {
        TaskRef { split: self.split.clone(), index }
    }
}

/// Number of tasks of a split; `None` for an infinite split.
///
/// # Errors
/// If the environment fails, or has no such split or no task in it.
pub async fn count_tasks(plugins: &PluginSet, split: &str) -> RunResult<Option<u64>> {
    let bound = plugins.environment();
    let splits = bound.plugin.splits(&bound.options).await.user_error()?;
    // Tasks are those of the environment, also where wrappers are around it.
    let environment = bound.plugin.innermost();
    let reads_assets = environment.manifest().capabilities.contains(&Capability::Assets);
    count_in(&splits, split, environment.name(), reads_assets)
}

/// Number of tasks of a split among those of environment `name`.
fn count_in(splits: &[SplitInfo], split: &str, name: &str, reads_assets: bool) -> RunResult<Option<u64>> {
    let assets = if reads_assets {
        format!(", or check that the files under plugins.{name}.assets have tasks")
    } else {
        String::new()
    };
    if splits.is_empty() {
        return Err(RunError::user(format!(
            "environment `{name}` has no tasks under these options\nhint: choose other options{assets}"
        )));
    }
    let Some(found) = splits.iter().find(|each| each.name == split) else {
        return Err(TaskError::of_split(name, split, splits)).user_error();
    };
    if found.tasks == Some(0) {
        return Err(RunError::user(format!(
            "split `{split}` of environment `{name}` is empty under these options\nhint: choose other options or \
             another split{assets}"
        )));
    }
    Ok(found.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_without_tasks_is_refused() {
        let split = |name: &str, tasks| SplitInfo { name: name.to_owned(), tasks };
        let splits = [split("train", Some(3)), split("test", Some(0)), split("all", None)];
        assert_eq!(count_in(&splits, "train", "x", true).expect("a split with tasks"), Some(3));
        assert_eq!(count_in(&splits, "all", "x", true).expect("a split with tasks"), None);
        for (splits, split, reads_assets, message) in [
            (
                &splits[..],
                "trian",
                true,
                "environment `x` has no split `trian`\nhint: use `train`, `test`, `all`; did you mean `train`?",
            ),
            (
                &splits[..],
                "test",
                false,
                "split `test` of environment `x` is empty under these options\nhint: choose other options or another split",
            ),
            (
                &splits[..],
                "test",
                true,
                "split `test` of environment `x` is empty under these options\nhint: choose other options or another \
                 split, or check that the files under plugins.x.assets have tasks",
            ),
            (
                &splits[..0],
                "train",
                true,
                "environment `x` has no tasks under these options\nhint: choose other options, or check that the files \
                 under plugins.x.assets have tasks",
            ),
            (
                &splits[..0],
                "train",
                false,
                "environment `x` has no tasks under these options\nhint: choose other options",
            ),
        ] {
            assert_eq!(count_in(splits, split, "x", reads_assets).expect_err(message).to_string(), message);
        }
    }

    #[test]
    fn every_pass_over_a_finite_split_has_each_task_once() {
        let mut tasks = TaskOrder::shuffled("train", Some(5), Seed(3));
        let mut passes: Vec<Vec<u64>> = Vec::new();
        for pass in 0..20 {
            let taken: Vec<u64> = tasks.take(pass * 5, 5).into_iter().map(|task| task.index).collect();
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            passes.push(taken);
        }
        assert!(passes.iter().any(|pass| *pass != passes[0]), "every pass has the same order");
        // A position yields the same task whatever was requested before.
        assert_eq!(tasks.take(3, 1)[0].index, passes[0][3]);
    }

    /// A plugin may name any number of tasks.
    #[test]
    fn a_huge_split_needs_no_list() {
        let mut tasks = TaskOrder::shuffled("train", Some(1 << 40), Seed(3));
        let first: std::collections::BTreeSet<u64> = tasks.take(0, 1000).into_iter().map(|task| task.index).collect();
        assert_eq!(first.len(), 1000);
        assert!(first.iter().all(|index| *index < 1 << 40));
    }

    /// Weights 1, 0 and 3: task 1 is never drawn, and task 2 three times as often as task 0.
    #[test]
    fn weighted_tasks_are_drawn_in_proportion() {
        let mut tasks = TaskOrder {
            rule: OrderRule::Weighted(vec![1.0, 1.0, 4.0]),
            ..TaskOrder::shuffled("train", Some(3), Seed(3))
        };
        let mut counts = [0.0; 3];
        tasks.take(0, 4000).into_iter().for_each(|task| counts[task.index as usize] += 1.0 / 4000.0);
        // Four standard deviations are 0.027.
        assert!((counts[0] - 0.25_f64).abs() < 0.027 && counts[1] == 0.0, "{counts:?}");
        assert_eq!(tasks.take(7, 3), tasks.take(0, 10)[7..]);
    }

    #[test]
    fn a_sequential_order_repeats_the_split() {
        let mut tasks = TaskOrder { rule: OrderRule::Sequential, ..TaskOrder::shuffled("train", Some(3), Seed(3)) };
        let indices: Vec<u64> = tasks.take(1, 5).into_iter().map(|task| task.index).collect();
        assert_eq!(indices, [1, 2, 0, 1, 2]);
        let refused = tasks.first(Some(4)).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(
            refused,
            "the sampler has tasks = 4, but split `train` has 3 tasks\nhint: lower `tasks` of the sampler to 3"
        );
    }
}
