//! An environment as its clients know it: its description, its splits, its tools, and the functions of its first task.

use std::sync::Arc;

use gymkhana_record::{Function, Seed, TaskRef};
use gymkhana_sandbox::{CallError, EnvironmentEpisode, EnvironmentInfo, SplitInfo};
use tokio::sync::OnceCell;

use super::{SessionError, TaskError};
use crate::episode::{Episode, EpisodeSeeds, EpisodeSetup, StartFailure};
use crate::hooks::NoHooks;
use crate::tools::tool_set::{BoundPlugin, ToolSet, unsandboxed};

/// An environment with the tools of its episodes.
pub struct DescribedEnvironment {
    bound: BoundPlugin,
    info: Arc<EnvironmentInfo>,
    tools: Arc<ToolSet>,
    splits: Vec<SplitInfo>,
    first: OnceCell<Vec<Function>>,
}

impl DescribedEnvironment {
    /// Asks an environment, with its options, for its description and its splits.
    ///
    /// # Errors
    /// If it fails or refuses its options.
    pub async fn describe(bound: BoundPlugin, tools: Arc<ToolSet>) -> Result<Self, CallError> {
        let info = bound.plugin.environment_info().await?;
        let splits = bound.plugin.splits(&bound.options).await?;
        Ok(Self { bound, info, tools, splits, first: OnceCell::new() })
    }

    /// The environment with its wrappers and options.
    #[must_use]
    pub fn bound(&self) -> &BoundPlugin {
        &self.bound
    }

    /// Short name of the environment inside of all wrappers, by which clients know it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bound.plugin.innermost().name()
    }

    /// Its description: summary, seats, range of rewards.
    #[must_use]
    pub fn info(&self) -> &Arc<EnvironmentInfo> {
        &self.info
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> &Arc<ToolSet> {
        &self.tools
    }

    /// Its splits with their numbers of tasks; `None` for splits without end.
    #[must_use]
    pub fn splits(&self) -> &[SplitInfo] {
        &self.splits
    }

    /// Full names of its plugins that run without a sandbox.
    #[must_use]
    pub fn unsandboxed(&self) -> Vec<String> {
        let tools = self.tools.tools().iter().map(|tool| &tool.bound.plugin);
        unsandboxed(std::iter::once(&self.bound.plugin).chain(tools))
    }

    /// The split of a name, or the first one.
    ///
    /// # Errors
    /// If there is none.
    pub fn split(&self, name: Option<&str>) -> Result<&SplitInfo, TaskError> {
        match name {
            None => self.splits.first().ok_or_else(|| TaskError::NoSplits { environment: self.name().to_owned() }),
            Some(name) => {
                let found = self.splits.iter().find(|split| split.name == name);
                found.ok_or_else(|| TaskError::of_split(self.name(), name, &self.splits))
            }
        }
    }

    /// A task of a split.
    ///
    /// # Errors
    /// If the split does not exist or ends before the task.
    pub fn task(&self, split: Option<&str>, index: u64) -> Result<TaskRef, TaskError> {
        let SplitInfo { name, tasks } = self.split(split)?;
        match tasks {
            Some(tasks) if index >= *tasks => Err(TaskError::NoTask { split: name.clone(), index, tasks: *tasks }),
            Some(_) | None => Ok(TaskRef { split: name.clone(), index }),
        }
    }

    /// Functions that the first seat has in the first task: what an episode that has not begun will probably offer.
    ///
    /// # Errors
    /// If the environment has no split, or fails.
    pub async fn first_functions(&self) -> Result<&[Function], SessionError> {
        let asked = self.first.get_or_try_init(async || {
            let task = TaskRef { split: self.split(None)?.name.clone(), index: 0 };
            self.functions_of(&task)
                .await
                .map_err(|error| SessionError::Call { plugin: self.bound.plugin.name().to_owned(), error })
        });
        asked.await.map(Vec::as_slice)
    }

    async fn functions_of(&self, task: &TaskRef) -> Result<Vec<Function>, CallError> {
        let BoundPlugin { plugin, options } = &self.bound;
        let (episode, started) = EnvironmentEpisode::start(plugin, task, options, Seed(0)).await?;
        episode.close().await?;
        let own = started.opening.functions.into_iter().find(|offered| offered.seat == started.seat);
        let own = own.map(|offered| offered.functions).unwrap_or_default();
        Ok(own.into_iter().chain(self.tools.functions().cloned()).collect())
    }

    /// Opens an episode, whose record has this room in bytes for what plugins return.
    ///
    /// # Errors
    /// If the environment does not start.
    pub async fn open(&self, task: TaskRef, seeds: EpisodeSeeds, max_bytes: u64) -> Result<Episode, StartFailure> {
        let (environment, tools) = (&self.bound, &self.tools);
        let setup = EpisodeSetup { environment, tools, task, seeds, overrides: Arc::default(), max_bytes };
        Episode::open(setup, self.info.seats.len(), &[], &mut NoHooks).await
    }
}
