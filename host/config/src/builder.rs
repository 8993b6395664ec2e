//! A run file made by a Rust program, key by key, with the same defaults and checks as one that is read.

use std::path::Path;

use gymkhana_algorithm::TinyModel;
use serde::Serialize;
use toml::{Table, Value};

use crate::error::RunFileError;
use crate::run_file::RunFile;
use crate::sections::{EvaluationSection, LimitsSection, Options};

/// Name of the program in errors.
const ORIGIN: &str = "the builder of a run file";

/// Builder of a [`RunFile`]. Errors are found by [`RunFileBuilder::build`].
///
/// ```
/// use gymkhana_config::{RunFile, StageBuilder, TinyModel};
///
/// let file = RunFile::builder()
///     .plugin("frozen-lake", "^0.1")
///     .tiny(&TinyModel { layers: 1, width: 48, heads: 2, kv_heads: 1, ..TinyModel::default() })
///     .set("limits.turns", 12)
///     .stage(StageBuilder::sft().steps(30).batch(16))
///     .stage(StageBuilder::rl("grpo").steps(4).groups(4).group_size(4))
///     .build()?;
/// assert_eq!((file.rules.limits.turns, file.stages.len()), (12, 2));
/// // What is not set has the default that fits the rest, as in a file.
/// let file = RunFile::builder().checkpoint("models/mine").stage(StageBuilder::sft()).build()?;
/// assert_eq!(file.stages[0].optimizer().learning_rate, 1e-5);
///
/// let wrong = RunFile::builder().set("limits.turn", 12).build();
/// assert!(wrong.unwrap_err().to_string().contains("did you mean `turns`?"));
/// # Ok::<(), gymkhana_config::RunFileError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RunFileBuilder(Keys);

impl RunFile {
    /// A builder, for programs that make a run file themselves.
    #[must_use]
    pub fn builder() -> RunFileBuilder {
        RunFileBuilder::default()
    }
}

impl RunFileBuilder {
    /// Names a plugin: versions in a registry such as `^0.1`, or the path of a component.
    #[must_use]
    pub fn plugin(self, name: &str, source: &str) -> Self {
        self.put(&["plugins", name, "use"], &source)
    }

    /// Sets options of the environment.
    #[must_use]
    pub fn environment_options(self, options: &Options) -> Self {
        self.put(&["environment", "options"], options)
    }

    /// Sets the success criterion: `environment.FACT`, `REWARD.COMPONENT` or `REWARD.total`.
    #[must_use]
    pub fn success(self, rule: &str) -> Self {
        self.put(&["success"], &rule)
    }

    /// Sets the root seed of all random numbers.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.put(&["seed"], &seed)
    }

    /// Begins with random weights of this size.
    #[must_use]
    pub fn tiny(self, model: &TinyModel) -> Self {
        self.put(&["policy", "tiny"], model)
    }

    /// Begins with the weights in a folder.
    #[must_use]
    pub fn checkpoint(self, folder: impl AsRef<Path>) -> Self {
        self.put(&["policy", "checkpoint"], &folder.as_ref())
    }

    /// Sets the limits of an episode.
    #[must_use]
    pub fn limits(self, limits: &LimitsSection) -> Self {
        self.put(&["limits"], limits)
    }

    /// Sets the evaluations on held-out tasks.
    #[must_use]
    pub fn evaluation(self, evaluation: &EvaluationSection) -> Self {
        self.put(&["evaluation"], evaluation)
    }

    /// Appends a stage.
    #[must_use]
    pub fn stage(mut self, stage: StageBuilder) -> Self {
        let StageBuilder(Keys { table, failed }) = stage;
        if let Value::Array(stages) = self.0.table.entry("stages").or_insert_with(|| Value::Array(vec![])) {
            stages.push(Value::Table(table));
        }
        self.0.failed = self.0.failed.or(failed);
        self
    }

    /// Sets any key by its dotted name, as `--set` does.
    #[must_use]
    pub fn set(self, key: &str, value: impl Into<Value>) -> Self {
        let parts: Vec<&str> = key.split('.').collect();
        self.put(&parts, &value.into())
    }

    /// The run file with its defaults.
    ///
    /// # Errors
    /// As [`RunFile::parse`]. A value that TOML cannot hold, such as a path that is not UTF-8, is malformed.
    pub fn build(self) -> Result<RunFile, RunFileError> {
        let malformed = |message: String| RunFileError::Malformed { origin: ORIGIN.to_owned(), message };
        let Keys { table, failed } = self.0;
        match failed {
            Some(message) => Err(malformed(message)),
            None => {
                let text = toml::to_string(&table).map_err(|error| malformed(error.to_string()))?;
                RunFile::parse(&text, ORIGIN, &[])
            }
        }
    }

    fn put(mut self, path: &[&str], value: &(impl Serialize + ?Sized)) -> Self {
        self.0.put(path, value);
        self
    }
}

/// Builder of a stage: the keys that are set. The others have their defaults.
#[derive(Debug, Clone, Default)]
pub struct StageBuilder(Keys);

impl StageBuilder {
    /// Supervised fine-tuning on demonstrations of the environment's oracle.
    #[must_use]
    pub fn sft() -> Self {
        Self::default().set("kind", "sft")
    }

    /// Reinforcement learning with the algorithm of a preset, such as `grpo`.
    #[must_use]
    pub fn rl(algorithm: &str) -> Self {
        Self::default().set("kind", "rl").set("algorithm", algorithm)
    }

    /// Sets the number of training steps.
    #[must_use]
    pub fn steps(self, steps: u32) -> Self {
        self.set("steps", steps)
    }

    /// Sets the demonstrations in a step of supervised fine-tuning.
    #[must_use]
    pub fn batch(self, episodes: u32) -> Self {
        self.set("batch", episodes)
    }

    /// Sets the tasks in a step of reinforcement learning.
    #[must_use]
    pub fn groups(self, groups: u32) -> Self {
        self.set("groups", groups)
    }

    /// Sets the attempts at each task.
    #[must_use]
    pub fn group_size(self, members: u32) -> Self {
        self.set("group_size", members)
    }

    /// Sets the optimiser's learning rate.
    #[must_use]
    pub fn learning_rate(self, rate: f64) -> Self {
        self.set("optimizer.learning_rate", rate)
    }

    /// Sets any key by its dotted name within the stage.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        let path: Vec<&str> = key.split('.').collect();
        self.0.put(&path, &value.into());
        self
    }
}

/// A table that is filled key by key.
#[derive(Debug, Clone, Default)]
struct Keys {
    table: Table,
    /// The first key that could not be set, with the reason.
    failed: Option<String>,
}

impl Keys {
    fn put(&mut self, path: &[&str], value: &(impl Serialize + ?Sized)) {
        let value = Value::try_from(value).map_err(|error| error.to_string());
        if let Err(why) = value.and_then(|value| insert(&mut self.table, path, value)) {
            self.failed.get_or_insert(format!("{}: {why}", path.join(".")));
        }
    }
}

/// Inserts a value below tables, which are made where they are missing.
fn insert(table: &mut Table, path: &[&str], value: Value) -> Result<(), String> {
    match path {
        [] => {}
        [key] => drop(table.insert((*key).to_owned(), value)),
        [key, rest @ ..] => match table.entry(*key).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => insert(inner, rest, value)?,
            _ => return Err(format!("`{key}` is a value\nhint: keys exist in sections only")),
        },
    }
    Ok(())
}
