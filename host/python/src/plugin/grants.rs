//! Grants of capabilities, in the words of a run file.

use std::collections::BTreeMap;
use std::path::Path;

use gymkhana_config::{EpisodeRules, ModelSection, PluginSection};
use gymkhana_orchestration::grants::{grant_alone, grants};
use gymkhana_sandbox::{Grants, Plugin};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::errors::FunctionFault;
use crate::runtime::Host;

/// Name of a model that is given instead of a name.
const GIVEN: &str = "given";

/// Keys of `[plugins.NAME]` that grant nothing: a program gives them in other ways.
const NO_GRANTS: [&str; 7] = ["use", "options", "weight", "schedule", "gate", "seat", "mcp"];
/// Keys that grant something, for messages.
const GRANTS: &str = "`assets`, `model`, `http`, `http_requests` and `tools`";

/// What a plugin may use.
#[derive(Default)]
pub struct Granted {
    section: PluginSection,
    models: BTreeMap<String, ModelSection>,
}

impl Granted {
    /// Reads grants: the keys of `[plugins.NAME]`, where `model` holds the keys of `[models.NAME]`.
    ///
    /// # Errors
    /// If a key or a value is not one of a run file.
    pub fn of(grants: &Json) -> Result<Self, FunctionFault> {
        match grants {
            Json::Object(grants) => Self::read(grants.clone()),
            _ => Ok(Self::default()),
        }
    }

    fn read(mut grants: Map<String, Json>) -> Result<Self, FunctionFault> {
        if let Some(key) = NO_GRANTS.iter().find(|key| grants.contains_key(**key)) {
            let why = format!("`grants` holds `{key}`, which is not a grant\nhint: grants are the keys {GRANTS}");
            return Err(FunctionFault::load(anyhow::anyhow!(why)));
        }
        let mut models = BTreeMap::new();
        if let Some(model) = grants.get_mut("model") {
            if !model.is_object() {
                let why = "`grants[\"model\"]` is not a mapping\nhint: give the keys of `[models.NAME]`, such as `url` \
                           and `name`";
                return Err(FunctionFault::load(anyhow::anyhow!(why)));
            }
            models.insert(GIVEN.to_owned(), section("model", std::mem::replace(model, Json::from(GIVEN)))?);
        }
        Ok(Self { section: section("grants", Json::Object(grants))?, models })
    }

    /// Writes the grants and a memory limit into the section of this plugin.
    pub fn write_into(mut self, rules: &mut EpisodeRules, plugin: &str, memory_mib: Option<usize>) {
        for model in std::mem::take(&mut self.models).into_values() {
            self.section.model = Some(plugin.to_owned());
            rules.models.insert(plugin.to_owned(), model);
        }
        let Self { section: granted, .. } = self;
        let before = rules.plugins.remove(plugin).unwrap_or_default();
        let PluginSection { options, weight, schedule, gate, seat, .. } = before;
        let section = PluginSection { options, weight, schedule, gate, seat, memory_mib, ..granted };
        if section != PluginSection::default() {
            rules.plugins.insert(plugin.to_owned(), section);
        }
    }

    /// The capabilities.
    pub fn capabilities(&self) -> Grants {
        grants(&self.section)
    }

    /// The plugin with what it may use. Paths are relative to the working directory.
    ///
    /// # Errors
    /// If the plugin does not ask for a grant, or a file or an environment variable is missing.
    pub fn grant(&self, plugin: &Plugin, host: &Host) -> Result<Plugin, FunctionFault> {
        // Outbound calls run on the runtime that is current here.
        let _current = host.handle().enter();
        Ok(grant_alone(&self.section, &self.models, Path::new("."), plugin)?)
    }
}

fn section<T: DeserializeOwned>(what: &str, value: Json) -> Result<T, FunctionFault> {
    serde_json::from_value(value)
        .map_err(|error| FunctionFault::load(anyhow::anyhow!("`{what}` cannot be used: {error}")))
}
