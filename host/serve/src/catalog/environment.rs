//! One environment as it is served: its description, its options, its tools, and the rules by which it is scored.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::RunFile;
use gymkhana_driver::{BoundPlugin, ToolSet};
use gymkhana_nearest::did_you_mean;
use gymkhana_orchestration::chat::chat_files_without_tokens;
use gymkhana_orchestration::rewards::reward_sum;
use gymkhana_orchestration::rollout::rollout;
use gymkhana_orchestration::{Classify, RunResult, is_tools_only};
use gymkhana_record::{Function, NamedValue, Seed, TaskRef, Value};
use gymkhana_registry::Digest;
use gymkhana_rollout::{PluginSet, Rollout};
use gymkhana_sandbox::{EnvironmentEpisode, EnvironmentInfo, OptionInfo, OptionalInterface, Plugin, SplitInfo};
use tokio::sync::OnceCell;

use crate::error::{ErrorKind, Owner, ServeError};

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
    /// Short name of the plugin inside of all wrappers.
    name: String,
    /// Name of its folder of records.
    folder: String,
    facts: PluginFacts,
    info: Arc<EnvironmentInfo>,
    /// Description of the environment inside of all wrappers.
    inside: Arc<EnvironmentInfo>,
    /// The environment with its wrappers.
    bound: BoundPlugin,
    splits: Vec<SplitInfo>,
    /// Plugins and rules of the episodes.
    rollout: Arc<Rollout>,
    /// The run file of the episodes' folder.
    run_file: RunFile,
    /// Options of a session that differ from those of the configuration.
    own_options: Vec<NamedValue>,
    /// Functions of the first seat in the first task.
    first: OnceCell<Vec<Function>>,
}

impl ServedEnvironment {
    /// Describes an environment of these plugins.
    ///
    /// # Errors
    /// If the environment fails or refuses its options, or the success rule or a gate names no metric.
    pub(super) async fn new(run_file: RunFile, set: PluginSet) -> RunResult<Self> {
        let bound = set.environment().clone();
        let info = bound.plugin.environment_info().await.user_error()?;
        let splits = bound.plugin.splits(&bound.options).await.user_error()?;
        let sum = reward_sum(&run_file, &set)?;
        let chat = ChatFormat::new(&chat_files_without_tokens()).internal()?;
        let rollout = Arc::new(rollout(&run_file, set, chat, sum, None)?);
        // Clients name the environment inside: wrappers are how this server offers it.
        let innermost = bound.plugin.innermost();
        let inside = innermost.environment_info().await.user_error()?;
        let (folder, facts) = (innermost.name().to_owned(), PluginFacts::of(innermost));
        let name = folder.clone();
        let (own_options, first) = (vec![], OnceCell::new());
        Ok(Self { name, folder, facts, info, inside, bound, splits, rollout, run_file, own_options, first })
    }

    /// The same with other options beside or in the place of its own.
    ///
    /// # Errors
    /// If the plugin refuses an option or fails.
    pub(super) async fn with_options(&self, folder: &str, options: Vec<NamedValue>) -> Result<Self, ServeError> {
        let mut all = self.options().to_vec();
        all.retain(|own| options.iter().all(|other| other.name != own.name));
        all.extend(options.iter().cloned());
        let mut run_file = self.run_file.clone();
        let value = |value: &Value| match value {
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            Value::Integer(integer) => toml::Value::Integer(*integer),
            Value::Number(number) => toml::Value::Float(*number),
            Value::Text(text) | Value::Other(text) => toml::Value::String(text.clone()),
            Value::Bytes(_) => toml::Value::String(String::new()),
        };
        run_file.environment.options = all.iter().map(|option| (option.name.clone(), value(&option.value))).collect();
        let set = self.rollout.plugins().with_environment_options(all).await;
        let failed = |error: &dyn std::fmt::Display| ServeError::bad_input(error.to_string());
        let served = Self::new(run_file, set.map_err(|error| failed(&error))?).await;
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
        &self.name
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

    /// Its description: summary, seats, range of rewards.
    #[must_use]
    pub fn info(&self) -> &Arc<EnvironmentInfo> {
        &self.info
    }

    /// Options that a session may set: those of the environment inside of all wrappers.
    #[must_use]
    pub fn known_options(&self) -> &[OptionInfo] {
        &self.inside.options
    }

    /// Its options, inside of all wrappers.
    #[must_use]
    pub fn options(&self) -> &[NamedValue] {
        self.bound.environment_options()
    }

    /// Its splits with their number of tasks; `None` for splits without end.
    #[must_use]
    pub fn splits(&self) -> &[SplitInfo] {
        &self.splits
    }

    /// The tools that its agents may call.
    #[must_use]
    pub fn tools(&self) -> &Arc<ToolSet> {
        self.rollout.plugins().tools()
    }

    /// Whether it offers an optional interface, such as a privileged view.
    #[must_use]
    pub fn offers(&self, interface: OptionalInterface) -> bool {
        self.bound.plugin.offers(interface)
    }

    /// The split of a name, or the first one.
    ///
    /// # Errors
    /// If there is none.
    pub fn split(&self, name: Option<&str>) -> Result<&SplitInfo, ServeError> {
        let plugin = self.name();
        let unknown = |message| ServeError::agent(ErrorKind::UnknownName, message);
        let Some(name) = name else {
            let none = || unknown(format!("environment `{plugin}` has no split"));
            return self.splits.first().ok_or_else(none);
        };
        self.splits.iter().find(|split| split.name == name).ok_or_else(|| {
            let known = || self.splits.iter().map(|split| split.name.as_str());
            let listed = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let near = did_you_mean(name, known());
            unknown(format!("environment `{plugin}` has no split `{name}`\nhint: it has {listed}{near}"))
        })
    }

    /// A task of a split.
    ///
    /// # Errors
    /// If the split does not exist or ends before the index.
    pub fn task(&self, split: Option<&str>, index: u64) -> Result<TaskRef, ServeError> {
        let split = self.split(split)?;
        match split.tasks {
            Some(tasks) if index >= tasks => {
                let message = format!(
                    "split `{}` has no task {index}: its tasks are 0 to {}",
                    split.name,
                    tasks.saturating_sub(1)
                );
                Err(ServeError::agent(ErrorKind::UnknownName, message))
            }
            Some(_) | None => Ok(TaskRef { split: split.name.clone(), index }),
        }
    }

    /// Functions that the first seat has in the first task: what an episode that has not begun will probably offer.
    ///
    /// # Errors
    /// If the environment fails.
    pub async fn first_functions(&self) -> Result<Vec<Function>, ServeError> {
        let BoundPlugin { plugin, options } = &self.bound;
        let failed = |error| ServeError::of_call(Owner::Environment, plugin.name(), &error);
        let asked = self.first.get_or_try_init(async || {
            let task = self.task(None, 0)?;
            let (episode, started) =
                EnvironmentEpisode::start(plugin, &task, options, Seed(0)).await.map_err(failed)?;
            episode.close().await.map_err(failed)?;
            let own = started.opening.functions.into_iter().find(|offered| offered.seat == started.seat);
            let own = own.map(|offered| offered.functions).unwrap_or_default();
            Ok::<_, ServeError>(own.into_iter().chain(self.tools().functions().cloned()).collect())
        });
        asked.await.cloned()
    }

    /// Short names of the plugins of its episodes, without the host's own environment.
    pub(crate) fn plugin_names(&self) -> Vec<String> {
        let own = self.bound.plugin.chain().map(Plugin::name).filter(|_| !self.is_tools_only());
        let tools = self.tools().tools().iter().map(|tool| tool.name());
        own.chain(tools).chain(self.rollout.plugins().reward_names()).map(ToOwned::to_owned).collect()
    }

    /// Options of a session that differ from those of the configuration.
    pub(crate) fn own_options(&self) -> &[NamedValue] {
        &self.own_options
    }

    /// Its plugin and options.
    pub(crate) fn bound(&self) -> &BoundPlugin {
        &self.bound
    }

    /// Plugins and rules of its episodes.
    pub(crate) fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    /// The run file of its folder of records.
    pub(crate) fn run_file(&self) -> &RunFile {
        &self.run_file
    }

    /// Number of sandbox places that one episode takes at most, without its rewards.
    pub(crate) fn places(&self) -> usize {
        let tools = self.tools().tools().iter().map(|tool| tool.bound.plugin.places());
        let all = std::iter::once(self.bound.plugin.places()).chain(tools);
        all.map(|places| places as usize).sum::<usize>().max(1)
    }
}
