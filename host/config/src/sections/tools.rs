//! `[tools.NAME]`: options of a tool.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Options;

/// Tool `NAME`, a plugin: its options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSection {
    /// Options of the plugin.
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
    pub options: Options,
}
