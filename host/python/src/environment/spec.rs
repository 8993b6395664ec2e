//! What episodes of one `Env` have in common: the environment, its options, its tools and its split.

use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, Tool, ToolSet};
use gymkhana_nearest::did_you_mean;
use gymkhana_record::{Function, NamedValue, Seed, TaskRef};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{EnvironmentEpisode, EnvironmentInfo, Plugin, SplitInfo};
use tokio::sync::OnceCell;

use crate::errors::{Fault, PluginFailure};
use crate::options;

/// The common part of episodes.
pub struct Spec {
    /// The environment.
    pub environment: BoundPlugin,
    /// Its description.
    pub info: Arc<EnvironmentInfo>,
    /// The tools.
    pub tools: Arc<ToolSet>,
    /// All splits.
    pub splits: Vec<SplitInfo>,
    /// Functions of the first seat in the first task.
    first: OnceCell<Vec<Function>>,
}

/// Checks that a plugin is of a kind.
pub fn check_kind(plugin: &Plugin, kind: Kind) -> Result<(), Fault> {
    let kinds = &plugin.manifest().kinds;
    if kinds.contains(&kind) {
        return Ok(());
    }
    let is = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    Err(Fault::Option(format!("plugin `{}` cannot be used as {kind}: it is {is}", plugin.name())))
}

impl Spec {
    /// Describes an environment with its tools.
    ///
    /// # Errors
    /// If the plugin is not an environment, does not know an option, or fails; or if two tools offer one function.
    pub async fn new(plugin: Plugin, options: Vec<NamedValue>, tools: Vec<BoundPlugin>) -> Result<Self, Fault> {
        check_kind(&plugin, Kind::Environment)?;
        let failed = |error| PluginFailure::of(plugin.name(), error);
        let info = plugin.environment_info().await.map_err(failed)?;
        let options = options::checked(plugin.name(), options, &info.options)?;
        let splits = plugin.splits(&options).await.map_err(failed)?;
        let mut set = ToolSet::default();
        for tool in tools {
            let name = tool.plugin.name().to_owned();
            let described = Tool::describe(tool).await.map_err(|error| PluginFailure::of(&name, error))?;
            set.add(described).map_err(|same| Fault::Option(same.to_string()))?;
        }
        let environment = BoundPlugin { plugin, options };
        Ok(Self { environment, info, tools: Arc::new(set), splits, first: OnceCell::new() })
    }

    /// The split of a name, or the first one.
    ///
    /// # Errors
    /// If there is none.
    pub fn split(&self, name: Option<&str>) -> Result<&SplitInfo, Fault> {
        let plugin = self.environment.plugin.name();
        let Some(name) = name else {
            let none = || Fault::Option(format!("plugin `{plugin}` has no task: it describes no split"));
            return self.splits.first().ok_or_else(none);
        };
        self.splits.iter().find(|split| split.name == name).ok_or_else(|| {
            let known = || self.splits.iter().map(|split| split.name.as_str());
            let listed = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let near = did_you_mean(name, known());
            Fault::Option(format!("plugin `{plugin}` has no split `{name}`\nhint: it has {listed}{near}"))
        })
    }

    /// A task of a split.
    ///
    /// # Errors
    /// If the split ends before it.
    pub fn task(split: &SplitInfo, index: u64) -> Result<TaskRef, Fault> {
        match split.tasks {
            Some(tasks) if index >= tasks => {
                let name = &split.name;
                Err(Fault::Option(format!(
                    "split `{name}` has no task {index}: its tasks are 0 to {}",
                    tasks.max(1) - 1
                )))
            }
            Some(_) | None => Ok(TaskRef { split: split.name.clone(), index }),
        }
    }

    /// Functions that the first seat has in the first task: what an episode that has not begun will probably offer.
    ///
    /// # Errors
    /// If the environment fails.
    pub async fn first_functions(&self) -> Result<&[Function], Fault> {
        let BoundPlugin { plugin, options } = &self.environment;
        let failed = |error| PluginFailure::of(plugin.name(), error);
        let asked = self.first.get_or_try_init(async || {
            let task = TaskRef { split: self.split(None)?.name.clone(), index: 0 };
            let (episode, started) =
                EnvironmentEpisode::start(plugin, &task, options, Seed(0)).await.map_err(failed)?;
            episode.close().await.map_err(failed)?;
            let own = started.opening.functions.into_iter().find(|offered| offered.seat == started.seat);
            let own = own.map(|offered| offered.functions).unwrap_or_default();
            Ok::<_, Fault>(own.into_iter().chain(self.tools.functions().cloned()).collect())
        });
        asked.await.map(Vec::as_slice)
    }
}
