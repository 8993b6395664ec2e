//! `[tools.NAME]`: options of a tool.

use serde::{Deserialize, Serialize};

use super::Options;

/// A tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSection {
    /// Options of the plugin.
    pub options: Options,
}
