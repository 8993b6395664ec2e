//! One environment as it is served: its description, its options, its tools, and the rules by which it is scored.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::EpisodeRules;
use gymkhana_driver::DescribedEnvironment;
use gymkhana_orchestration::chat::chat_files_without_tokens;
use gymkhana_orchestration::rewards::reward_sum;
use gymkhana_orchestration::rollout::rollout;
use gymkhana_orchestration::{Classify, RunResult, is_tools_only};
use gymkhana_record::{NamedValue, Value};
use gymkhana_registry::Digest;
use gymkhana_rollout::{PluginSet, Rollout};
use gymkhana_sandbox::{EnvironmentInfo, OptionInfo, OptionalInterface, Plugin};

use crate::error::ServeError;

/// Facts of a plugin's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFacts {
    /// Name with its namespace.
    pub name: String,
    /// Version.
    pub version: String,
    /// Digest of the component.
    pub digest: String,
    /// One-line description.
    pub description: String,
}

impl PluginFacts {
    /// Facts of this plugin.
    #[must_use]
    pub fn of(plugin: &Plugin) -> Self {
        let manifest = plugin.manifest();
        Self {
            name: manifest.name.to_string(),
            version: manifest.version.to_string(),
            digest: plugin.digest().to_string(),
            description: manifest.description.clone(),
        }
    }
}

/// An environment with its tools and rewards.
pub struct ServedEnvironment {
    /// Name of its folder of records.
    folder: String,
    facts: PluginFacts,
    /// Description of the environment inside of all wrappers.
    inside: Arc<EnvironmentInfo>,
    /// The environment with its wrappers and tools.
    described: DescribedEnvironment,
    /// Plugins and rules of the episodes.
    rollout: Arc<Rollout>,
    /// Rules of the episodes.
    rules: EpisodeRules,
    /// Options of a session that differ from those of the configuration.
    own_options: Vec<NamedValue>,
}

impl ServedEnvironment {
    /// Describes an environment of these plugins.
    ///
    /// # Errors
    /// If the environment fails or refuses its options, or the success rule or a gate names no metric.
    pub(super) async fn new(rules: EpisodeRules, set: PluginSet) -> RunResult<Self> {
        let bound = set.environment().clone();
        let sum = reward_sum(&rules, &set)?;
        let chat = ChatFormat::new(&chat_files_without_tokens()).internal()?;
        let rollout = Arc::new(rollout(&rules, set, chat, sum, None)?);
        // Clients name the environment inside: wrappers are how this server offers it.
        let innermost = bound.plugin.innermost();
        let inside = innermost.environment_info().await.user_error()?;
        let (folder, facts) = (innermost.name().to_owned(), PluginFacts::of(innermost));
        let described = DescribedEnvironment::describe(bound, Arc::clone(rollout.plugins().tools())).await;
        Ok(Self { folder, facts, inside, described: described.user_error()?, rollout, rules, own_options: vec![] })
    }

    /// The same with other options beside or instead of its own.
    ///
    /// # Errors
    /// If the plugin refuses an option or fails.
    pub(super) async fn with_options(&self, folder: &str, options: Vec<NamedValue>) -> Result<Self, ServeError> {
        let mut all = self.options().to_vec();
        all.retain(|own| options.iter().all(|other| other.name != own.name));
        all.extend(options.iter().cloned());
        let mut rules = self.rules.clone();
        let value = |value: &Value| match value {
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            Value::Integer(integer) => toml::Value::Integer(*integer),
            Value::Number(number) => toml::Value::Float(*number),
            Value::Text(text) | Value::Other(text) => toml::Value::String(text.clone()),
            Value::Bytes(_) => toml::Value::String(String::new()),
        };
        rules.environment.options = all.iter().map(|option| (option.name.clone(), value(&option.value))).collect();
        let set = self.rollout.plugins().with_environment_options(all).await;
        let failed = |error: &dyn std::fmt::Display| ServeError::bad_input(error.to_string());
        let served = Self::new(rules, set.map_err(|error| failed(&error))?).await;
        let served = served.map_err(|error| failed(&error))?;
        Ok(Self { folder: folder.to_owned(), own_options: options, ..served })
    }

    /// Name of the folder of records with these options.
    pub(super) fn variant_key(&self, options: &[NamedValue]) -> String {
        // Values of options serialise to JSON without fail.
        let text = serde_json::to_string(options).unwrap_or_default();
        format!("{}-{:.12}", self.name(), Digest::of(text.as_bytes()).to_string())
    }

    /// Short name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.described.name()
    }

    /// Whether it is the environment of tool sessions.
    #[must_use]
    pub fn is_tools_only(&self) -> bool {
        is_tools_only(&self.facts.name)
    }

    /// Name of its folder of records.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Facts of its manifest.
    #[must_use]
    pub fn facts(&self) -> &PluginFacts {
        &self.facts
    }

    /// Its description, splits and tools.
    #[must_use]
    pub fn described(&self) -> &DescribedEnvironment {
        &self.described
    }

    /// Options that a session may set: those of the environment inside of all wrappers.
    #[must_use]
    pub fn known_options(&self) -> &[OptionInfo] {
        &self.inside.options
    }

    /// Its options, inside of all wrappers.
    #[must_use]
    pub fn options(&self) -> &[NamedValue] {
        self.described.bound().environment_options()
    }

    /// Whether it offers an optional interface, such as a privileged view.
    #[must_use]
    pub fn offers(&self, interface: OptionalInterface) -> bool {
        self.described.bound().plugin.offers(interface)
    }

    /// Short names of the plugins of its episodes, without the host's own environment.
    pub(crate) fn plugin_names(&self) -> Vec<String> {
        let own = self.described.bound().plugin.chain().map(Plugin::name).filter(|_| !self.is_tools_only());
        let tools = self.described.tools().tools().iter().map(|tool| tool.name());
        own.chain(tools).chain(self.rollout.plugins().reward_names()).map(ToOwned::to_owned).collect()
    }

    /// Options of a session that differ from those of the configuration.
    pub(crate) fn own_options(&self) -> &[NamedValue] {
        &self.own_options
    }

    /// Plugins and rules of its episodes.
    pub(crate) fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    /// Rules of its episodes.
    pub(crate) fn rules(&self) -> &EpisodeRules {
        &self.rules
    }

    /// Number of sandbox places that one episode takes at most, without its rewards.
    pub(crate) fn places(&self) -> usize {
        let tools = self.described.tools().tools().iter().map(|tool| tool.bound.plugin.places());
        let all = std::iter::once(self.described.bound().plugin.places()).chain(tools);
        all.map(|places| places as usize).sum::<usize>().max(1)
    }
}
