//! The plugins of a run: one environment, tools and rewards, each with its options, checked against each other.

use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, SameFunction, Tool, ToolSet, UnknownOption, UnknownTool, unsandboxed};
use gymkhana_record::{FailureKind, NamedValue, Seed, Value};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{CallError, EnvironmentInfo, OptionInfo, Plugin, RewardInfo, score};

use crate::reward::{MetricRuleError, RewardCatalog, RewardSum, RewardTerm};

/// A reward and its weight and gate.
#[derive(Clone)]
pub struct BoundReward {
    /// The plugin and its options.
    pub bound: BoundPlugin,
    /// Weight and gate.
    pub term: RewardTerm,
}

/// A reward with its description.
pub(crate) struct RewardPlugin {
    pub(crate) bound: BoundPlugin,
    pub(crate) term: RewardTerm,
    pub(crate) info: Arc<RewardInfo>,
}

/// The value of one option, which a plugin refused.
#[derive(Debug, thiserror::Error)]
#[error("{key} is {value}, which plugin `{plugin}` refuses: {why}\nhint: use {wanted}")]
pub struct RefusedOption {
    /// Key of the option in the run file.
    pub key: String,
    /// Value of the option.
    pub value: String,
    /// The plugin.
    pub plugin: String,
    /// Type and limits of the option.
    pub wanted: String,
    /// The plugin's words.
    pub why: String,
}

/// Error that prevents a set of plugins.
#[derive(Debug, thiserror::Error)]
pub enum PluginSetError {
    /// A query to a plugin failed.
    #[error("plugin `{plugin}` cannot list what it offers")]
    Ask {
        /// The plugin.
        plugin: String,
        /// Cause.
        source: CallError,
    },
    /// The plugin refused an option's value.
    #[error("plugin `{plugin}` refuses its options\nhint: correct them in the run file")]
    Options {
        /// The plugin.
        plugin: String,
        /// The option and its allowed values.
        source: CallError,
    },
    /// The plugin refused the value of one option.
    #[error(transparent)]
    RefusedOption(Box<RefusedOption>),
    /// The plugin does not declare the option.
    #[error(transparent)]
    UnknownOption(#[from] UnknownOption),
    /// Two tools offer one function.
    #[error("cannot use these tools together: {0}\nhint: give only one of them to the run")]
    SameFunction(#[from] SameFunction),
    /// A tool offers the function by which the policy edits its context.
    #[error(
        "tool `{tool}` offers a function `{function}`, as does context strategy `edits`\nhint: choose another strategy \
         or leave the tool out"
    )]
    ContextFunction {
        /// The function.
        function: String,
        /// The tool.
        tool: String,
    },
}

/// One environment with its tools and rewards.
pub struct PluginSet {
    pub(crate) environment: BoundPlugin,
    pub(crate) environment_info: Arc<EnvironmentInfo>,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) rewards: Vec<RewardPlugin>,
}

impl PluginSet {
    /// Queries every plugin, and checks the run's options and the names of functions. Each plugin reads its options
    /// once, so that a wrong value is found before any episode.
    ///
    /// # Errors
    /// If a plugin cannot be queried, refuses or does not know an option, or offers a function of another plugin.
    pub async fn assemble(
        environment: BoundPlugin,
        tools: Vec<BoundPlugin>,
        rewards: Vec<BoundReward>,
    ) -> Result<Self, PluginSetError> {
        let environment_info = check_environment(&environment).await?;
        let mut set = ToolSet::default();
        for bound in tools {
            let info = bound.plugin.tool_info().await.map_err(ask(&bound.plugin))?;
            check_options(&bound, &info.options)?;
            let section = format!("plugins.{}.options", bound.plugin.name());
            let described = Tool::describe(bound.clone()).await;
            set.add(described.map_err(|source| refused(&bound, &section, &info.options, source))?)?;
        }
        let mut described = Vec::new();
        for BoundReward { bound, term } in rewards {
            let info = bound.plugin.reward_info().await.map_err(ask(&bound.plugin))?;
            check_options(&bound, &info.options)?;
            check_reward_options(&bound, &info.options).await?;
            described.push(RewardPlugin { bound, term, info });
        }
        Ok(Self { environment, environment_info, tools: Arc::new(set), rewards: described })
    }

    /// The reward with the least memory, and that memory in bytes; `None` without rewards in a sandbox.
    #[must_use]
    pub fn least_reward_memory(&self) -> Option<(&str, usize)> {
        let memory = self.rewards.iter().filter_map(|reward| {
            let plugin = &reward.bound.plugin;
            Some((plugin.name(), plugin.memory_bytes()?))
        });
        memory.min_by_key(|(_, bytes)| *bytes)
    }

    /// The same set, in which one seat may call only the tools of these names.
    ///
    /// # Errors
    /// If a name is not that of a tool.
    pub fn with_tools_of_seat(mut self, seat: u32, tools: &[String]) -> Result<Self, UnknownTool> {
        self.tools = Arc::new(self.tools.restricted(seat, tools)?);
        Ok(self)
    }

    /// The same set, in which a reward gives all seats the score of one.
    #[must_use]
    pub fn with_reward_of_seat(mut self, reward: &str, seat: u32) -> Self {
        for reward in self.rewards.iter_mut().filter(|known| known.bound.plugin.name() == reward) {
            reward.term.seat = Some(seat);
        }
        self
    }

    /// Number of the environment's seats.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.environment_info.seats.len()
    }

    /// Names of the seats, in order.
    #[must_use]
    pub fn seat_names(&self) -> &[String] {
        &self.environment_info.seats
    }

    /// Maximum number of sandbox places that one episode takes: those of its environment, its tools, and one reward
    /// with the tools that it can call. At least 1, also if no plugin needs a place.
    #[must_use]
    pub fn places(&self) -> usize {
        let tools = self.tools.tools().iter().map(|tool| tool.bound.plugin.places());
        let of_tools: u32 = self.tools.tools().iter().map(|tool| tool.bound.plugin.places()).sum();
        let of_reward = |reward: &RewardPlugin| {
            let plugin = &reward.bound.plugin;
            let calls_tools = plugin.manifest().capabilities.contains(&Capability::Tools);
            plugin.places() + if calls_tools { of_tools } else { 0 }
        };
        let reward = self.rewards.iter().map(of_reward).max();
        let all = std::iter::once(self.environment.plugin.places()).chain(tools).chain(reward);
        all.map(|places| places as usize).sum::<usize>().max(1)
    }

    /// Full names of the plugins that run without a sandbox, for records.
    pub(crate) fn unsandboxed(&self) -> Vec<String> {
        let tools = self.tools.tools().iter().map(|tool| &tool.bound.plugin);
        let rewards = self.rewards.iter().map(|reward| &reward.bound.plugin);
        unsandboxed(std::iter::once(&self.environment.plugin).chain(tools).chain(rewards))
    }

    /// The environment's plugin and options.
    #[must_use]
    pub fn environment(&self) -> &BoundPlugin {
        &self.environment
    }

    /// Names of the tool plugins.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.tools().iter().map(|tool| tool.name())
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> &Arc<ToolSet> {
        &self.tools
    }

    /// The same set with other options of the environment, inside of its wrappers.
    ///
    /// # Errors
    /// If the environment refuses or does not know an option, or fails.
    pub async fn with_environment_options(&self, options: Vec<NamedValue>) -> Result<Self, PluginSetError> {
        let environment = self.environment.with_environment_options(options);
        let tools = self.tools.tools().iter().map(|tool| tool.bound.clone()).collect();
        let reward = |reward: &RewardPlugin| BoundReward { bound: reward.bound.clone(), term: reward.term.clone() };
        let mut set = Self::assemble(environment, tools, self.rewards.iter().map(reward).collect()).await?;
        set.tools = Arc::new(ToolSet::clone(&set.tools).restricted_like(&self.tools));
        Ok(set)
    }

    /// Names of the reward plugins, in the order in which they score.
    pub fn reward_names(&self) -> impl Iterator<Item = &str> {
        self.rewards.iter().map(|reward| reward.bound.plugin.name())
    }

    /// Names of the rewards, each with one of its components.
    pub fn components(&self) -> impl Iterator<Item = (&str, &str)> {
        self.catalog()
            .0
            .into_iter()
            .flat_map(|(reward, components)| components.into_iter().map(move |component| (reward, component)))
    }

    /// Checks that the metrics named by the success rule and gates can exist, and that each gate can open.
    ///
    /// # Errors
    /// If a reward or a component does not exist, or gates depend on each other.
    pub fn check_rules(&self, rewards: &RewardSum) -> Result<(), MetricRuleError> {
        rewards.check(&self.catalog(), &self.terms())
    }

    /// Names of the rewards and of their components.
    pub(crate) fn catalog(&self) -> RewardCatalog<'_> {
        fn names(reward: &RewardPlugin) -> Vec<&str> {
            reward.info.components.iter().map(|component| component.name.as_str()).collect()
        }
        RewardCatalog(self.rewards.iter().map(|reward| (reward.bound.plugin.name(), names(reward))).collect())
    }

    /// Weight and gate of each reward by name, in scoring order.
    pub(crate) fn terms(&self) -> Vec<(&str, &RewardTerm)> {
        self.rewards.iter().map(|reward| (reward.bound.plugin.name(), &reward.term)).collect()
    }
}

/// Converts a plugin's call error.
fn ask(plugin: &Plugin) -> impl FnOnce(CallError) -> PluginSetError {
    let plugin = plugin.name().to_owned();
    move |source| match source.kind {
        FailureKind::Refused => PluginSetError::Options { plugin, source },
        _ => PluginSetError::Ask { plugin, source },
    }
}

/// Checks the options of the environment and of its wrappers, from the inside out, and returns the description of the
/// outermost.
async fn check_environment(environment: &BoundPlugin) -> Result<Arc<EnvironmentInfo>, PluginSetError> {
    let mut layers = vec![environment.clone()];
    while let Some((inner, options)) = layers.last().and_then(|bound| bound.plugin.inner()) {
        layers.push(BoundPlugin { plugin: inner.clone(), options: options.to_vec() });
    }
    for bound in layers.iter().rev() {
        let (plugin, options) = (&bound.plugin, &bound.options);
        let info = plugin.environment_info().await.map_err(ask(plugin))?;
        check_options(bound, &info.options)?;
        let section = match plugin.inner() {
            Some(_) => format!("environment.wrap.{}", plugin.name()),
            None => "environment.options".to_owned(),
        };
        let refuse = |source| refused(bound, &section, &info.options, source);
        plugin.splits(options).await.map_err(refuse)?;
    }
    environment.plugin.environment_info().await.map_err(ask(&environment.plugin))
}

/// Converts the call error of a plugin that read its options; a refusal that names one of them gets its key in `section`.
fn refused(bound: &BoundPlugin, section: &str, declared: &[OptionInfo], source: CallError) -> PluginSetError {
    let named = |option: &&NamedValue| source.message.contains(&format!("option `{}`", option.name));
    let option = bound.options.iter().filter(|_| source.kind == FailureKind::Refused).find(named);
    match option.and_then(|option| Some((option, declared.iter().find(|info| info.name == option.name)?))) {
        Some((option, info)) => PluginSetError::RefusedOption(Box::new(RefusedOption {
            key: format!("{section}.{}", option.name),
            value: shown(&option.value),
            plugin: bound.plugin.name().to_owned(),
            wanted: wanted(info),
            why: source.plugin_words().to_owned(),
        })),
        None => ask(&bound.plugin)(source),
    }
}

/// A value as in the run file.
fn shown(value: &Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::Other(json) => json.clone(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    }
}

/// Type of an option, and the limits that its description ends with, such as `(1 to 4)`.
fn wanted(info: &OptionInfo) -> String {
    let kind = match &info.default {
        Value::Flag(_) => "true or false",
        Value::Integer(_) => "a whole number",
        Value::Number(_) => "a number",
        Value::Text(_) => "a text",
        Value::Bytes(_) | Value::Other(_) => "a list or a table",
    };
    let limits = info.description.strip_suffix(')').and_then(|words| words.rsplit_once(" ("));
    limits.map_or_else(|| kind.to_owned(), |(_, limits)| format!("{kind} ({limits})"))
}

/// Checks a reward's options by scoring a group without members, because a reward reads its options only when it
/// scores. A reward that refuses such a group with default options too, or fails, is accepted: the run will show the
/// failure.
async fn check_reward_options(bound: &BoundPlugin, declared: &[OptionInfo]) -> Result<(), PluginSetError> {
    let refusal = async |options| match score(&bound.plugin, &[], options, 0, Seed(0)).await {
        Err(error) if error.kind == FailureKind::Refused => Some(error),
        _ => None,
    };
    if bound.options.is_empty() {
        return Ok(());
    }
    match refusal(&bound.options).await {
        Some(error) if refusal(&[]).await.is_none() => {
            Err(refused(bound, &format!("plugins.{}.options", bound.plugin.name()), declared, error))
        }
        _ => Ok(()),
    }
}

fn check_options(bound: &BoundPlugin, declared: &[OptionInfo]) -> Result<(), PluginSetError> {
    for option in &bound.options {
        if !declared.iter().any(|info| info.name == option.name) {
            return Err(UnknownOption::new(bound.plugin.name(), &option.name, declared).into());
        }
    }
    Ok(())
}
