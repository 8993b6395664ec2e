//! `[plugins.NAME]`: where a plugin comes from, its options, its weight as a reward, and what it is granted.

use std::collections::BTreeMap;

use gymkhana_algorithm::WeightSchedule;
use gymkhana_nearest::did_you_mean;
use gymkhana_registry::{PluginSource, Requirement, RequirementName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::environment::check_schedule;
use super::{HttpSection, McpSection, ModelSection, Options, SandboxSection};
use crate::checks::is_default;
use crate::error::RunFileError;

/// Plugin `NAME`: where it comes from, its options, and what it is granted. A text alone is that of `use`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginSection {
    /// Versions in the registry, such as `^0.1`; with a namespace if several registries have the name, such as
    /// `lab/calculator@^0.1`; or the path of a component relative to the run file. `off` leaves the plugin out, as in a
    /// control. `--plugins` wins. The run's lock names the component that was used.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "versions, `NAME@VERSIONS`, a path that ends in `.wasm`, or `off`", "x-default" = "the plugin is given with `--plugins`"))]
    pub source: Option<String>,
    /// Options of a tool or a reward. Those of an environment are in `[environment]`, those of a wrapper in its `wrap`.
    #[serde(skip_serializing_if = "Options::is_empty")]
    #[schemars(!skip_serializing_if, with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
    pub options: Options,
    /// Factor of a reward's total in the sum of rewards.
    #[serde(skip_serializing_if = "is_one")]
    #[schemars(!skip_serializing_if, range(min = -1e6, max = 1e6))]
    pub weight: f64,
    /// Change of a reward's weight over training steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "constant"))]
    pub schedule: Option<WeightSchedule>,
    /// Condition under which a reward counts, such as `answer-match.correct >= 0.5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a [condition](#gates)"))]
    pub gate: Option<String>,
    /// Seat whose total and components of a reward all seats get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "each seat has its own"))]
    pub seat: Option<String>,
    /// Server of the Model Context Protocol that is a tool, without a plugin. Excludes `use` and `options`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpSection>,
    /// Shares one instance of the plugin among `sandbox.shared_episodes` episodes. Excludes fuel limits.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub shared: bool,
    /// Memory per instance of this plugin in MiB, including the memory with which it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096), extend("x-default" = "`sandbox.memory_mib`"))]
    pub memory_mib: Option<usize>,
    /// Grant of `assets`: paths of readable files, by the name that the plugin uses. A path is relative to the run
    /// file; the resolved run file holds the digest of the content instead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-range" = "paths"))]
    pub assets: BTreeMap<String, String>,
    /// Grant of `model`: the section of `[models]` that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a name in `[models]`"))]
    pub model: Option<String>,
    /// Grant of `http`: allow-list of servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub http: Vec<HttpSection>,
    /// HTTP requests per episode. Requires `http`.
    #[serde(skip_serializing_if = "is_default_requests")]
    #[schemars(!skip_serializing_if, range(min = 1, max = 1_000_000))]
    pub http_requests: u32,
    /// Grant of `tools`: a reward may call the run's tools.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub tools: bool,
}

/// Value of `use` that leaves a plugin out.
const OFF: &str = "off";

const REQUESTS: u32 = 64;

fn is_default_requests(requests: &u32) -> bool {
    *requests == REQUESTS
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(weight: &f64) -> bool {
    *weight == 1.0
}

impl Default for PluginSection {
    fn default() -> Self {
        Self {
            source: None,
            options: Options::new(),
            weight: 1.0,
            schedule: None,
            gate: None,
            seat: None,
            mcp: None,
            shared: false,
            memory_mib: None,
            assets: BTreeMap::new(),
            model: None,
            http: vec![],
            http_requests: REQUESTS,
            tools: false,
        }
    }
}

impl PluginSection {
    /// Where the plugin `NAME` comes from, if the section says so.
    ///
    /// # Errors
    /// If `use` is none of its forms, or names another plugin.
    pub fn source_of(&self, plugin: &str) -> Result<Option<PluginSource>, RunFileError> {
        let Some(text) = self.source.as_ref().filter(|text| *text != OFF) else { return Ok(None) };
        let wrong = |why: String| {
            let hint = "hint: write versions such as `^0.1`, or a path such as `./my-reward.wasm`";
            Err(RunFileError::Contradiction(format!("plugins.{plugin}.use is `{text}`{why}\n{hint}")))
        };
        if let Ok(versions) = text.parse() {
            let name = RequirementName::Short(plugin.to_owned());
            return Ok(Some(PluginSource::Name(Requirement { name, versions })));
        }
        match PluginSource::of(text) {
            PluginSource::Name(wanted) if wanted.name.short() != plugin => {
                wrong(", the name of another plugin".to_owned())
            }
            PluginSource::File(path) if path.extension().is_none_or(|end| end != "wasm") => wrong(String::new()),
            source => Ok(Some(source)),
        }
    }

    /// Whether the plugin is left out.
    pub(crate) fn is_off(&self) -> bool {
        self.source.as_deref() == Some(OFF)
    }

    /// Checks ranges, and relations between keys.
    pub(crate) fn check(
        &self,
        plugin: &str,
        sandbox: &SandboxSection,
        models: &BTreeMap<String, ModelSection>,
    ) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        self.source_of(plugin)?;
        self.check_server(plugin)?;
        check_schedule(&format!("plugins.{plugin}"), self.schedule)?;
        if self.shared && (sandbox.fuel_per_call, sandbox.fuel_per_episode) != (None, None) {
            return contradiction(format!(
                "plugins.{plugin}.shared and [sandbox] fuel exclude each other: the cost of a call in a shared \
                 instance depends on its other episodes\nhint: remove one of them"
            ));
        }
        if let Some(model) = self.model.as_ref().filter(|model| !models.contains_key(*model)) {
            let near = did_you_mean(model, models.keys().map(String::as_str));
            return contradiction(format!(
                "plugins.{plugin}.model is `{model}`, but section [models.{model}] is missing\nhint: add it with `url` \
                 and `name`{near}"
            ));
        }
        if self.http.is_empty() && self.http_requests != REQUESTS {
            return contradiction(format!(
                "plugins.{plugin}.http_requests is set, but no `http` rule allows a request\nhint: remove it"
            ));
        }
        self.http.iter().try_for_each(|rule| rule.check(plugin))
    }

    /// Checks the server, which is a tool without a plugin.
    fn check_server(&self, plugin: &str) -> Result<(), RunFileError> {
        let Some(mcp) = &self.mcp else { return Ok(()) };
        let excluded = [
            ("options", !self.options.is_empty(), "give it arguments in `command`, or variables in `env`"),
            ("use", self.source.is_some(), "remove one of them"),
        ];
        match excluded.into_iter().find(|(_, is_set, _)| *is_set) {
            Some((key, _, hint)) => Err(RunFileError::Contradiction(format!(
                "plugins.{plugin}.{key} is set, but an MCP server has none\nhint: {hint}"
            ))),
            None => mcp.check(plugin),
        }
    }
}

/// The value of `plugins.NAME`: a table, or the text of `use` alone.
pub(crate) struct PluginEntry(PluginSection);

/// Replaces each text below `[plugins]` by a table, in which `--set` can set other keys.
pub(crate) fn plugins_as_tables(file: &mut Table) {
    let plugins = file.get_mut("plugins").and_then(Value::as_table_mut).into_iter().flatten();
    for (_, section) in plugins.filter(|(_, section)| section.is_str()) {
        let source = section.clone();
        *section = Value::Table(Table::from_iter([("use".to_owned(), source)]));
    }
}

/// Reads `[plugins]`.
pub(crate) fn plugin_sections<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, PluginSection>, D::Error> {
    let entries = BTreeMap::<String, PluginEntry>::deserialize(deserializer)?;
    Ok(entries.into_iter().map(|(name, PluginEntry(section))| (name, section)).collect())
}

impl<'de> Deserialize<'de> for PluginEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = PluginEntry;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("versions or the path of a plugin, or a table")
    }

    fn visit_str<E>(self, source: &str) -> Result<PluginEntry, E> {
        Ok(PluginEntry(PluginSection { source: Some(source.to_owned()), ..PluginSection::default() }))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<PluginEntry, M::Error> {
        PluginSection::deserialize(MapAccessDeserializer::new(map)).map(PluginEntry)
    }
}

impl JsonSchema for PluginEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PluginEntry".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<PluginSection>();
        json_schema!({ "anyOf": [table, { "type": "string" }] })
    }
}
