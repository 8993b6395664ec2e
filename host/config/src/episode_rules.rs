//! The rules of an episode: its plugins with their options and grants, and its limits. Runs, gateways and servers share
//! them.

use std::collections::{BTreeMap, BTreeSet};

use gymkhana_registry::PluginSource;
use gymkhana_rules::ContextStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::sections::{
    EnvironmentSection, FailuresSection, LimitsSection, ModelSection, PluginEntry, PluginSection, SandboxSection,
    SeatSection, plugin_sections,
};

/// Default success criterion: the environment's fact `success`.
const SUCCESS: &str = "environment.success";

/// Rules of an episode. The files of runs, gateways and servers have these keys at their top level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EpisodeRules {
    /// Success criterion: an episode is solved if the value is true or at least 0.5. A component is that of the first
    /// seat.
    #[schemars(extend("x-range" = "`environment.FACT`, `REWARD.COMPONENT` or `REWARD.total`"))]
    pub success: String,
    /// Environment: its splits, its options and the weight of its rewards.
    pub environment: EnvironmentSection,
    /// Plugins by name: where they come from, their options, their weights and what they are granted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "plugin_sections")]
    #[schemars(
        !skip_serializing_if,
        with = "BTreeMap<String, PluginEntry>",
        extend("x-range" = "see [`[plugins.NAME]`](#pluginsname)")
    )]
    pub plugins: BTreeMap<String, PluginSection>,
    /// Policies of the environment's seats, by seat name. A seat without a section is `shared`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub seats: BTreeMap<String, SeatSection>,
    /// Limits of an episode.
    pub limits: LimitsSection,
    /// Context strategy: the part of a long episode that the policy sees.
    pub context: ContextStrategy,
    /// Handling of failed episodes.
    pub failures: FailuresSection,
    /// Resource limits of plugin calls.
    pub sandbox: SandboxSection,
    /// Models that plugins may call, by the name used in `plugins.NAME.model`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSection>,
}

impl Default for EpisodeRules {
    fn default() -> Self {
        Self {
            success: SUCCESS.to_owned(),
            environment: EnvironmentSection::default(),
            plugins: BTreeMap::new(),
            seats: BTreeMap::new(),
            limits: LimitsSection::default(),
            context: ContextStrategy::default(),
            failures: FailuresSection::default(),
            sandbox: SandboxSection::default(),
            models: BTreeMap::new(),
        }
    }
}

impl EpisodeRules {
    /// Checks relations between sections. Seats are checked with the policy that plays them.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), RunFileError> {
        self.environment.check()?;
        self.limits.check()?;
        self.check_context("")?;
        self.plugins.iter().try_for_each(|(name, plugin)| plugin.check(name, &self.sandbox, &self.models))?;
        let is_used = |name: &str| self.plugins.values().any(|plugin| plugin.model.as_deref() == Some(name));
        self.models.iter().try_for_each(|(name, model)| model.check(name, is_used(name)))
    }

    /// Where plugins come from, by name, as far as the sections say so.
    ///
    /// # Errors
    /// Never for rules that passed their checks.
    pub fn sources(&self) -> Result<Vec<(&str, PluginSource)>, RunFileError> {
        let named = self.plugins.iter().filter_map(|(name, section)| {
            section.source_of(name).transpose().map(|source| source.map(|source| (name.as_str(), source)))
        });
        named.collect()
    }

    /// Removes the sources of all plugins, and sections that say nothing else or leave a plugin out: a lock names what was
    /// used.
    pub fn forget_sources(&mut self) {
        self.plugins.retain(|_, section| {
            let is_off = section.is_off();
            let says_nothing = section.source.take().is_some() && *section == PluginSection::default();
            !is_off && !says_nothing
        });
    }

    /// Removes the sections of other plugins than those of these short names, and models that no section refers to then.
    pub fn retain_plugins(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.plugins.retain(|name, _| is_kept(name));
        let used: Vec<&String> = self.plugins.values().filter_map(|plugin| plugin.model.as_ref()).collect();
        self.models.retain(|name, _| used.contains(&name));
    }

    /// Names of the wrappers of the environment.
    #[must_use]
    pub fn wrappers(&self) -> BTreeSet<String> {
        self.environment.wrap.iter().map(|entry| entry.plugin.clone()).collect()
    }

    /// Checks the context strategy against the limit of the context; `of` is the section's prefix in messages.
    pub(crate) fn check_context(&self, of: &str) -> Result<(), RunFileError> {
        let checked = self.context.check(self.limits.context_tokens.unwrap_or(usize::MAX));
        checked.map_err(|error| RunFileError::Contradiction(format!("{of}{error}")))
    }
}
