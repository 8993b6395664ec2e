//! Tools and rewards that `--with` adds to an environment.

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, Tool, ToolSet};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{Plugin, Sandbox};

use crate::error::{Classify, CliError, CliResult};
use crate::plugin::build::{self, BuildMode};
use crate::plugin::log;
use crate::plugin::plugin_inputs::PluginInputs;
use crate::printer::Printer;

/// Plugins beside the environment, with default options.
pub struct Companions {
    /// Tools that may be called.
    pub tools: Arc<ToolSet>,
    /// Rewards that score the episode.
    pub rewards: Vec<Plugin>,
}

impl Companions {
    /// Loads the plugins; a folder is built.
    pub async fn load(plugins: &[PathBuf], sandbox: &Sandbox, printer: &Printer) -> CliResult<Self> {
        let (mut tools, mut rewards) = (ToolSet::default(), vec![]);
        for path in plugins {
            let inputs = PluginInputs::read(&build::component(path, BuildMode::Quick, printer)?)?;
            let (name, kinds) = (&inputs.manifest.name, &inputs.manifest.kinds);
            if kinds.contains(&Kind::Environment) {
                let message = format!("--with `{name}` is an environment, but an episode has one environment");
                return Err(CliError::user(message).with_hint("give tools and rewards"));
            }
            let plugin = log::printed(&inputs.load(sandbox)?, printer);
            if kinds.contains(&Kind::Tool) {
                let bound = BoundPlugin { plugin: plugin.clone(), options: vec![] };
                let described = Tool::describe(bound).await.user_context(format!("tool `{name}` cannot be used"))?;
                tools.add(described).user_error()?;
            }
            if kinds.contains(&Kind::Reward) {
                rewards.push(plugin);
            }
        }
        Ok(Self { tools: Arc::new(tools), rewards })
    }
}
