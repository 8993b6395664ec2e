//! `[environment]`: splits, options, wrappers and reward weight of the environment.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use gymkhana_algorithm::WeightSchedule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::RunFileError;

/// Options of a plugin, as in the run file.
pub type Options = BTreeMap<String, toml::Value>;

/// Environment: its splits, its options and the weight of its rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentSection {
    /// Split of training tasks.
    #[schemars(extend("x-range" = "a split"))]
    pub train: String,
    /// Split of held-out tasks.
    #[schemars(extend("x-range" = "a split"))]
    pub eval: String,
    /// Factor of the sum of the environment's rewards.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub weight: f64,
    /// Change of the weight over training steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "constant"))]
    pub schedule: Option<WeightSchedule>,
    /// Condition under which the rewards count, such as `answer-match.correct >= 0.5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a [condition](#gates)"))]
    pub gate: Option<String>,
    /// Options of the plugin.
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
    pub options: Options,
    /// Wrappers around the environment, the outermost first: a plugin's name, or a table with `plugin` and its options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-range" = "[wrappers](../how-to/wrap-environments.md) of `--plugins`, each once"))]
    pub wrap: Vec<WrapperEntry>,
}

/// A wrapper of an environment, with its options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WrapperEntry {
    /// Name of the wrapper's plugin.
    pub plugin: String,
    /// Options of the plugin.
    pub options: Options,
}

/// Rejects schedules that contradict themselves.
pub(super) fn check_schedule(section: &str, schedule: Option<WeightSchedule>) -> Result<(), RunFileError> {
    let checked = schedule.map_or(Ok(()), |schedule| schedule.check());
    checked.map_err(|error| RunFileError::Contradiction(format!("{section}.schedule.{error}")))
}

impl Default for EnvironmentSection {
    fn default() -> Self {
        Self {
            train: "train".to_owned(),
            eval: "test".to_owned(),
            weight: 1.0,
            schedule: None,
            gate: None,
            options: Options::new(),
            wrap: vec![],
        }
    }
}

impl EnvironmentSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_schedule("environment", self.schedule)?;
        check_wrappers("environment", None, &self.wrap)
    }
}

/// Rejects a wrapper around itself. `environment` is the plugin inside, if the run file names it.
pub(super) fn check_wrappers(
    section: &str,
    environment: Option<&str>,
    wrap: &[WrapperEntry],
) -> Result<(), RunFileError> {
    for (index, WrapperEntry { plugin, .. }) in wrap.iter().enumerate() {
        let inside = wrap[index + 1..].iter().map(|entry| entry.plugin.as_str()).chain(environment);
        if inside.into_iter().any(|inside| inside == plugin) {
            return Err(RunFileError::Contradiction(format!(
                "{section}.wrap puts `{plugin}` around itself\nhint: list each wrapper once, without the environment \
                 itself"
            )));
        }
    }
    Ok(())
}

impl Serialize for WrapperEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.options.is_empty() {
            return serializer.serialize_str(&self.plugin);
        }
        let mut map = serializer.serialize_map(Some(1 + self.options.len()))?;
        map.serialize_entry("plugin", &self.plugin)?;
        self.options.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for WrapperEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

/// Reader of a name, or a table with `plugin` and options.
struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = WrapperEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a wrapper, or a table with `plugin` and its options")
    }

    fn visit_str<E>(self, plugin: &str) -> Result<WrapperEntry, E> {
        Ok(WrapperEntry { plugin: plugin.to_owned(), options: Options::new() })
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<WrapperEntry, M::Error> {
        let mut entry = WrapperEntry::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "plugin" {
                entry.plugin = map.next_value()?;
            } else {
                entry.options.insert(key, map.next_value()?);
            }
        }
        if entry.plugin.is_empty() { Err(M::Error::missing_field("plugin")) } else { Ok(entry) }
    }
}

impl JsonSchema for WrapperEntry {
    fn schema_name() -> Cow<'static, str> {
        "WrapperEntry".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let table = json_schema!({
            "type": "object",
            "properties": { "plugin": { "type": "string" } },
            "required": ["plugin"],
        });
        json_schema!({ "anyOf": [{ "type": "string" }, table] })
    }
}
