//! `[tools.NAME]`: options of a tool, or a server as a tool.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{McpSection, Options};
use crate::error::RunFileError;

/// Tool `NAME`: options of a plugin, or a server of the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSection {
    /// Options of the plugin.
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
    pub options: Options,
    /// Server of the Model Context Protocol that is the tool, without a plugin. Excludes `options`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpSection>,
}

impl ToolSection {
    pub(crate) fn check(&self, tool: &str) -> Result<(), RunFileError> {
        let Some(mcp) = &self.mcp else { return Ok(()) };
        if !self.options.is_empty() {
            return Err(RunFileError::Contradiction(format!(
                "tools.{tool}.options is set, but an MCP server has no options\nhint: give it arguments in `command`, \
                 or variables in `env`"
            )));
        }
        mcp.check(tool)
    }
}
