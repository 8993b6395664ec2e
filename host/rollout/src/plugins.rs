//! The plugins of a run: one environment, tools and rewards, each with its options, checked against each other.

use std::collections::HashMap;
use std::sync::Arc;

use gymkhana_episode::{Function, NamedValue};
use gymkhana_sandbox::{CallError, EnvironmentInfo, OptionInfo, Plugin, RewardInfo};

/// A plugin and the options that the run gives it.
#[derive(Clone)]
pub struct Bound {
    /// The plugin.
    pub plugin: Plugin,
    /// Its options.
    pub options: Vec<NamedValue>,
}

/// A reward and what it counts.
#[derive(Clone)]
pub struct BoundReward {
    /// The plugin and its options.
    pub bound: Bound,
    /// Its total is multiplied by this before it is added.
    pub weight: f64,
}

/// A tool with its functions under the run's options.
pub(crate) struct Tool {
    pub(crate) bound: Bound,
    pub(crate) functions: Vec<Function>,
}

/// A reward with its description.
pub(crate) struct Reward {
    pub(crate) bound: Bound,
    pub(crate) weight: f64,
    pub(crate) info: Arc<RewardInfo>,
}

/// Why plugins do not make a set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// A plugin could not be asked.
    #[error("plugin `{plugin}` cannot be asked what it offers")]
    Ask {
        /// The plugin.
        plugin: String,
        /// Why.
        source: CallError,
    },
    /// An option that the plugin does not declare.
    #[error("plugin `{plugin}` has no option `{option}`; it has {known}")]
    UnknownOption {
        /// The plugin.
        plugin: String,
        /// The option.
        option: String,
        /// What it has, in words.
        known: String,
    },
    /// Two tools offer one function.
    #[error("tools `{first}` and `{second}` both offer a function `{function}`; give only one of them to the run")]
    SameFunction {
        /// The function.
        function: String,
        /// One tool.
        first: String,
        /// The other.
        second: String,
    },
}

/// One environment with its tools and rewards.
pub struct PluginSet {
    pub(crate) environment: Bound,
    pub(crate) environment_info: Arc<EnvironmentInfo>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) rewards: Vec<Reward>,
    /// Which tool offers a function.
    pub(crate) directory: HashMap<String, usize>,
}

impl PluginSet {
    /// Asks every plugin what it offers and checks the run's options and the functions' names.
    ///
    /// # Errors
    /// If a plugin cannot be asked, does not know an option, or offers what another one offers.
    pub async fn assemble(
        environment: Bound,
        tools: Vec<Bound>,
        rewards: Vec<BoundReward>,
    ) -> Result<Self, SetError> {
        let ask = |plugin: &Plugin| {
            let plugin = plugin.name().to_owned();
            move |source| SetError::Ask { plugin, source }
        };
        let environment_info = environment.plugin.environment_info().await.map_err(ask(&environment.plugin))?;
        check_options(&environment, &environment_info.options)?;
        let mut set = Self { environment, environment_info, tools: vec![], rewards: vec![], directory: HashMap::new() };
        for bound in tools {
            let info = bound.plugin.tool_info().await.map_err(ask(&bound.plugin))?;
            check_options(&bound, &info.options)?;
            let functions = bound.plugin.functions(&bound.options).await.map_err(ask(&bound.plugin))?;
            set.add_tool(Tool { bound, functions })?;
        }
        for BoundReward { bound, weight } in rewards {
            let info = bound.plugin.reward_info().await.map_err(ask(&bound.plugin))?;
            check_options(&bound, &info.options)?;
            set.rewards.push(Reward { bound, weight, info });
        }
        Ok(set)
    }

    fn add_tool(&mut self, tool: Tool) -> Result<(), SetError> {
        for function in &tool.functions {
            if let Some(first) = self.directory.insert(function.name.clone(), self.tools.len()) {
                let first = self.tools.get(first).unwrap_or(&tool);
                return Err(SetError::SameFunction {
                    function: function.name.clone(),
                    first: first.bound.plugin.name().to_owned(),
                    second: tool.bound.plugin.name().to_owned(),
                });
            }
        }
        self.tools.push(tool);
        Ok(())
    }

    /// How many seats the environment has.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.environment_info.seats.len()
    }

    /// The environment's plugin and options.
    #[must_use]
    pub fn environment(&self) -> &Bound {
        &self.environment
    }

    /// The names of the components that a reward of this name has; none if there is no such reward.
    #[must_use]
    pub fn components(&self, reward: &str) -> Option<Vec<&str>> {
        let reward = self.rewards.iter().find(|each| each.bound.plugin.name() == reward)?;
        Some(reward.info.components.iter().map(|component| component.name.as_str()).collect())
    }

    /// The names of the functions that the tools offer.
    pub(crate) fn function_names(&self) -> Vec<String> {
        self.tools.iter().flat_map(|tool| tool.functions.iter().map(|function| function.name.clone())).collect()
    }
}

fn check_options(bound: &Bound, declared: &[OptionInfo]) -> Result<(), SetError> {
    for option in &bound.options {
        if !declared.iter().any(|info| info.name == option.name) {
            let names: Vec<String> = declared.iter().map(|info| format!("`{}`", info.name)).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(SetError::UnknownOption {
                plugin: bound.plugin.name().to_owned(),
                option: option.name.clone(),
                known,
            });
        }
    }
    Ok(())
}
