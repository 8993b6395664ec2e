//! Tools and rewards that `--with` adds to an environment.

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, Tool, ToolSet};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{Plugin, Sandbox};

use crate::error::{Classify, CliError, CliResult};
use crate::plugin::build::BuildMode;
use crate::plugin::find;
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
    /// Reads the plugins that `--with` names.
    pub fn find(plugins: &[PathBuf], printer: &Printer) -> CliResult<Vec<PluginInputs>> {
        plugins.iter().map(|given| find(given, BuildMode::Quick, printer)).collect()
    }

    /// Loads the plugins.
    pub async fn load(plugins: &[PluginInputs], sandbox: &Sandbox, printer: &Printer) -> CliResult<Self> {
        let (mut tools, mut rewards) = (ToolSet::default(), vec![]);
        for inputs in plugins {
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
