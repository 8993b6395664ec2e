//! The plugins that a server offers: environments, tools and rewards, loaded once.

mod environment;
mod options;
mod published;
mod variants;

use std::path::Path;
use std::sync::Arc;

use gymkhana_config::EpisodeRules;
use gymkhana_driver::ToolSet;
use gymkhana_http::Client;
use gymkhana_nearest::did_you_mean;
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::plugins::{self, bind_all};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult, TOOLS_ONLY, tools_only};
use gymkhana_record::NamedValue;
use gymkhana_registry::{Kind, PluginFile};
use gymkhana_rollout::PluginSet;
use gymkhana_sandbox::{Plugin, Sandbox};

use crate::config::ServeFile;
use crate::error::{ErrorKind, ServeError};

pub use environment::{PluginFacts, ServedEnvironment};
pub use options::named_values;
pub use published::SERVE_FILE;
use variants::Variants;

/// The plugins of a server.
pub struct Catalog {
    /// Environments in the order of their names.
    environments: Vec<Arc<ServedEnvironment>>,
    /// The tools without an environment, for tool sessions; `None` if the server has no tools.
    tools_only: Option<Arc<ServedEnvironment>>,
    variants: Variants,
    /// The plugins' files, for the folders of records.
    files: Vec<PluginFile>,
    /// The assets of the plugins, for the folders of records.
    assets: AssetFiles,
    sandbox: Sandbox,
    /// The configuration, with digests instead of the paths of assets; absent for the plugins of a run.
    config: Option<ServeFile>,
    /// Rules with the sections of all plugins.
    rules: EpisodeRules,
}

impl Catalog {
    /// Loads plugins. Paths of assets are relative to `folder`.
    ///
    /// # Errors
    /// If a plugin is refused, two tools offer one function, or a section of the configuration has no plugin.
    pub async fn load(
        config: &ServeFile,
        folder: &Path,
        files: Vec<PluginFile>,
        reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let mut config = config.clone();
        // The folders of records name assets by their digest.
        let assets = AssetFiles::pin(&mut config.rules, folder, None)?;
        let mut rules = config.rules.clone();
        // A plugin is granted an environment inside if any environment lists it.
        rules.environment.wrap = config.environments.values().flat_map(|own| own.wrap.clone()).collect();
        Self::with_assets(Some(config), rules, files, assets, reporter).await
    }

    /// Loads plugins whose assets are read. `rules` has the sections of all of them; without a configuration they are those
    /// of the episodes.
    async fn with_assets(
        config: Option<ServeFile>,
        rules: EpisodeRules,
        files: Vec<PluginFile>,
        assets: AssetFiles,
        reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let sandbox = plugins::sandbox(&rules.sandbox, reporter)?;
        let loaded = plugins::load(&rules, &rules.wrappers(), &sandbox, &files, &assets, OutboundMode::Live)?;
        config.as_ref().map_or(Ok(()), |config| sections_have_plugins(config, &loaded))?;
        let mut catalog = Self {
            environments: vec![],
            tools_only: None,
            variants: Variants::new(config.as_ref().map_or(1, |config| config.clients.len())),
            files,
            assets,
            sandbox,
            config,
            rules,
        };
        let is = |plugin: &&Plugin, kind| plugin.manifest().kinds.contains(&kind);
        for environment in loaded.iter().filter(|plugin| is(plugin, Kind::Environment) && !plugin.is_wrapper()) {
            let served = catalog.bind(environment.clone(), &loaded).await?;
            catalog.environments.push(Arc::new(served));
        }
        // The rules of a run are those of its environment.
        let offers_tools = catalog.config.is_some() || catalog.environments.is_empty();
        if offers_tools && loaded.iter().any(|plugin| is(&plugin, Kind::Tool)) {
            catalog.tools_only = Some(Arc::new(catalog.bind(tools_only()?, &loaded).await?));
        }
        if catalog.environments.is_empty() && catalog.tools_only.is_none() {
            return Err(RunError::user("no plugin is an environment or a tool\nhint: name one that agents can use"));
        }
        Ok(catalog)
    }

    /// An environment with its wrappers and all tools and rewards.
    async fn bind(&self, environment: Plugin, loaded: &[Plugin]) -> RunResult<ServedEnvironment> {
        let listed = match &self.config {
            Some(config) => config.environments.get(environment.name()).map(|own| &own.wrap[..]).unwrap_or_default(),
            None => &self.rules.environment.wrap,
        };
        let others = loaded.iter().filter(|plugin| {
            !plugin.manifest().kinds.contains(&Kind::Environment)
                || (plugin.is_wrapper() && listed.iter().any(|entry| entry.plugin == plugin.name()))
        });
        let plugins: Vec<Plugin> = std::iter::once(environment.clone()).chain(others.cloned()).collect();
        let names: Vec<&str> = plugins.iter().map(Plugin::name).collect();
        let rules = match &self.config {
            Some(config) => config.rules_of(environment.name(), &names),
            None => self.rules.clone(),
        };
        let set: PluginSet = bind_all(&rules, plugins).await?;
        ServedEnvironment::new(rules, set).await
    }

    /// The environments, in the order of their names.
    #[must_use]
    pub fn environments(&self) -> &[Arc<ServedEnvironment>] {
        &self.environments
    }

    /// The environment of this name, or the only one.
    ///
    /// # Errors
    /// If there is no such environment, or several and no name.
    pub fn environment(&self, name: Option<&str>) -> Result<&Arc<ServedEnvironment>, ServeError> {
        let known = || self.environments.iter().map(|environment| environment.name());
        let listed = || known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let unknown = |message| Err(ServeError::agent(ErrorKind::UnknownName, message));
        match (name, &self.environments[..]) {
            (_, []) => unknown("this server has no environment, only tools".to_owned()),
            (None, [only]) => Ok(only),
            (None, _) => unknown(format!("several environments are served\nhint: name one of {}", listed())),
            (Some(name), environments) => {
                let is = |environment: &&Arc<ServedEnvironment>| {
                    environment.name() == name || environment.facts().name == name
                };
                environments.iter().find(is).map_or_else(
                    || {
                        let near = did_you_mean(name, known());
                        unknown(format!("there is no environment `{name}`\nhint: use {}{near}", listed()))
                    },
                    Ok,
                )
            }
        }
    }

    /// The same environment with other options, for a session of this client; it is kept as long as sessions use it.
    ///
    /// # Errors
    /// If the plugin does not know or refuses an option, or too many different options are in use.
    pub async fn with_options(
        &self,
        environment: &Arc<ServedEnvironment>,
        options: Vec<NamedValue>,
        client: Option<&Client>,
    ) -> Result<Arc<ServedEnvironment>, ServeError> {
        let options = options::checked(environment, options)?;
        if options.is_empty() {
            return Ok(Arc::clone(environment));
        }
        let folder = environment.variant_key(&options);
        match self.variants.find(&folder) {
            Some(known) => Ok(known),
            None => self.variants.add(environment.with_options(&folder, options).await?, client),
        }
    }

    /// Whether an environment in use has its records in this folder.
    pub(crate) fn holds_folder(&self, folder: &str) -> bool {
        let is = |served: &Arc<ServedEnvironment>| served.folder() == folder;
        self.environments.iter().chain(&self.tools_only).any(is) || self.variants.holds_folder(folder)
    }

    /// The tools as the environment of tool sessions.
    ///
    /// # Errors
    /// If the server has no tools.
    pub fn tools_only(&self) -> Result<&Arc<ServedEnvironment>, ServeError> {
        let none = || ServeError::agent(ErrorKind::UnknownName, "this server has no tools, only environments");
        self.tools_only.as_ref().ok_or_else(none)
    }

    /// All tools, in the order of their names; empty without tools.
    #[must_use]
    pub fn tools(&self) -> Arc<ToolSet> {
        self.tools_only.as_ref().map(|served| Arc::clone(served.described().tools())).unwrap_or_default()
    }

    /// The plugins' files.
    #[must_use]
    pub fn files(&self) -> &[PluginFile] {
        &self.files
    }

    /// The assets of the plugins.
    #[must_use]
    pub fn assets(&self) -> &AssetFiles {
        &self.assets
    }

    /// The sandbox of all plugins.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Number of sandbox places that are in use beside those of live episodes, with this number of calls at a time.
    pub(crate) fn spare_places(&self, running: usize) -> usize {
        let mut all = self.environments.iter().chain(&self.tools_only);
        if all.any(|served| served.rollout().plugins().reward_names().next().is_some()) {
            running
        } else if self.config.is_some() {
            self.places_per_episode()
        } else {
            0
        }
    }

    /// Number of sandbox places that one episode takes at most.
    pub(crate) fn places_per_episode(&self) -> usize {
        let all = self.environments.iter().chain(&self.tools_only);
        all.map(|served| served.places()).max().unwrap_or(1)
    }
}

/// Rejects sections without a plugin, because their settings would have no effect.
fn sections_have_plugins(config: &ServeFile, loaded: &[Plugin]) -> RunResult<()> {
    if let Some((name, _)) = config.rules.plugins.iter().find(|(_, section)| section.mcp.is_some()) {
        let message =
            format!("plugins.{name}.mcp cannot be served: MCP servers are tools of runs, and a server offers plugins");
        return Err(RunError::user(message).with_hint("remove it, and give the agent the MCP server's own address"));
    }
    let is_environment =
        |plugin: &&Plugin| plugin.manifest().kinds.contains(&Kind::Environment) && !plugin.is_wrapper();
    let known: Vec<&str> = loaded.iter().filter(is_environment).map(Plugin::name).collect();
    if let Some(name) = config.environments.keys().find(|name| !known.contains(&name.as_str())) {
        let near = did_you_mean(name, known);
        let message = format!("[environments.{name}] is unused: no such plugin is served\nhint: remove it{near}");
        return Err(RunError::user(message));
    }
    if config.environments.contains_key(TOOLS_ONLY) {
        return Err(RunError::user(format!("[environments.{TOOLS_ONLY}] is unused\nhint: remove it")));
    }
    let unused = config
        .rules
        .models
        .keys()
        .find(|name| !config.rules.plugins.values().any(|plugin| plugin.model.as_deref() == Some(name.as_str())));
    match unused {
        Some(name) => Err(RunError::user(format!("models.{name} is unused: no plugin refers to it\nhint: remove it")))
            .user_error(),
        None => Ok(()),
    }
}
