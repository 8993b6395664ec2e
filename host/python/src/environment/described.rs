//! Environments with their options and tools, checked as Python gives them.

use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, DescribedEnvironment, EpisodeSession, NextEpisode, Tool, ToolSet, check_options};
use gymkhana_record::NamedValue;
use gymkhana_registry::Kind;
use gymkhana_sandbox::Plugin;

use crate::errors::{FunctionFault, PluginFailure};

/// What an episode begins with.
#[derive(Debug, Clone, Default)]
pub struct Begin {
    /// Split, task and seed.
    pub next: NextEpisode,
    /// Options of the environment, of this episode and of those after it.
    pub options: Option<Vec<NamedValue>>,
}

/// Checks that a plugin is of a kind.
pub fn check_kind(plugin: &Plugin, kind: Kind) -> Result<(), FunctionFault> {
    let kinds = &plugin.manifest().kinds;
    if kinds.contains(&kind) {
        return Ok(());
    }
    let is = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    Err(FunctionFault::Option(format!("plugin `{}` cannot be used as {kind}: it is {is}", plugin.name())))
}

/// Describes an environment with its tools.
///
/// # Errors
/// If the plugin is not an environment, does not know an option, or fails; or if two tools offer one function.
pub async fn describe(
    plugin: Plugin,
    options: Vec<NamedValue>,
    tools: Vec<BoundPlugin>,
) -> Result<DescribedEnvironment, FunctionFault> {
    let mut set = ToolSet::default();
    for tool in tools {
        let name = tool.plugin.name().to_owned();
        let described = Tool::describe(tool).await.map_err(|error| PluginFailure::of(&name, error))?;
        set.add(described).map_err(|same| FunctionFault::Option(same.to_string()))?;
    }
    with_tools(plugin, options, Arc::new(set)).await
}

async fn with_tools(
    plugin: Plugin,
    options: Vec<NamedValue>,
    tools: Arc<ToolSet>,
) -> Result<DescribedEnvironment, FunctionFault> {
    check_kind(&plugin, Kind::Environment)?;
    let name = plugin.name().to_owned();
    let failed = |error| PluginFailure::of(&name, error);
    let info = plugin.environment_info().await.map_err(failed)?;
    let options = check_options(&name, options, &info.options)?;
    Ok(DescribedEnvironment::describe(BoundPlugin { plugin, options }, tools).await.map_err(failed)?)
}

/// Begins an episode and ends the one before.
///
/// # Errors
/// If the split, the task or an option does not exist, or the environment fails.
pub async fn reset(session: &mut EpisodeSession, begin: Begin) -> Result<(), FunctionFault> {
    let Begin { next, options } = begin;
    if let Some(options) = options {
        let environment = session.environment();
        let (plugin, tools) = (environment.bound().plugin.clone(), Arc::clone(environment.tools()));
        session.set_environment(Arc::new(with_tools(plugin, options, tools).await?));
    }
    session.reset(next).await?;
    Ok(())
}
