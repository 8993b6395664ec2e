//! Order of tasks: an infinite split in sequence, a finite one reshuffled in every pass.

use gymkhana_record::{Seed, TaskRef};
use gymkhana_registry::Capability;
use gymkhana_rollout::PluginSet;
use gymkhana_sandbox::SplitInfo;

use crate::error::{Classify, RunError, RunResult};
use gymkhana_nearest::did_you_mean;

/// Order of the tasks of a split.
pub struct TaskSampler {
    split: String,
    count: Option<u64>,
    seed: Seed,
    /// Pass whose permutation `order` holds.
    pass: Option<u64>,
    order: Vec<u64>,
}

impl TaskSampler {
    /// Order of a split's tasks under a run's seed.
    ///
    /// # Errors
    /// As [`count_tasks`].
    pub async fn of_run(plugins: &PluginSet, split: &str, seed: Seed) -> RunResult<Self> {
        let count = count_tasks(plugins, split).await?;
        let seed = seed.child("tasks").child(split);
        Ok(Self { split: split.to_owned(), count, seed, pass: None, order: vec![] })
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
        let index = match self.count {
            None => position,
            Some(count) => {
                let pass = position / count;
                if self.pass != Some(pass) {
                    self.order = (0..count).collect();
                    self.seed.child(pass).stream().shuffle(&mut self.order);
                    self.pass = Some(pass);
                }
                self.order[(position % count) as usize]
            }
        };
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
    let reads_assets = bound.plugin.manifest().capabilities.contains(&Capability::Assets);
    count_in(&splits, split, bound.plugin.name(), reads_assets)
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
        let known: Vec<String> = splits.iter().map(|split| format!("`{}`", split.name)).collect();
        let near = did_you_mean(split, splits.iter().map(|split| split.name.as_str()));
        return Err(RunError::user(format!(
            "environment `{name}` has no split `{split}`\nhint: use {}{near}",
            known.join(", ")
        )));
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
        let mut tasks =
            TaskSampler { split: "train".to_owned(), count: Some(5), seed: Seed(3), pass: None, order: vec![] };
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
}
