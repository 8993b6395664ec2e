//! `plugins.NAME.mcp`: a server of the Model Context Protocol as a tool.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::grants::SecretSection;
use crate::checks::is_default;
use crate::error::RunFileError;

/// Server of the Model Context Protocol as the tool `NAME`: a program on this machine (`command`) or a server at a
/// `url`. Each episode has a session of its own. The name consists of lower-case letters, digits and `-`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpSection {
    /// Program and its arguments. Excludes `url`. A program without `/` is looked up in `PATH`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub command: Vec<String>,
    /// URL of a server that speaks streamable HTTP. Excludes `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^https?://", "x-range" = "`http://` or `https://`"))]
    pub url: Option<Url>,
    /// Environment variables of the program, beside `PATH`, `LANG`, `HOME` and `TMPDIR`. The last two lead to a folder
    /// of the session.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-range" = "texts"))]
    pub env: BTreeMap<String, String>,
    /// Environment variables of the host that the program gets, such as one with a key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub env_from: Vec<String>,
    /// Working directory of the program, an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "a new folder per session, removed at its end", "x-range" = "an absolute path"))]
    pub folder: Option<PathBuf>,
    /// Allows the program to use the network.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub network: bool,
    /// Allows the URL to lead to this machine or a private network.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub private: bool,
    /// Header of each request to the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretSection>,
    /// Names of the server's tools that policies may call; all of them if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub only: Vec<String>,
    /// Digest of the list of tools, as the run's lock file has it. The run refuses another list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "64 hexadecimal digits"))]
    pub digest: Option<String>,
    /// Timeout of a call in seconds.
    #[schemars(range(min = 0.001, max = 3600))]
    pub seconds: f64,
    /// Timeout of a session's start in seconds, including the program's own.
    #[schemars(range(min = 0.001, max = 3600))]
    pub start_seconds: f64,
    /// Maximum size of all that the server sends for one answer, in KiB.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_kib: usize,
}

impl Default for McpSection {
    fn default() -> Self {
        Self {
            command: vec![],
            url: None,
            env: BTreeMap::new(),
            env_from: vec![],
            folder: None,
            network: false,
            private: false,
            secret: None,
            only: vec![],
            digest: None,
            seconds: 30.0,
            start_seconds: 30.0,
            max_kib: 1024,
        }
    }
}

impl McpSection {
    pub(crate) fn check(&self, tool: &str) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        match (&self.url, &self.command[..]) {
            (None, [_, ..]) => self.check_command(tool),
            (Some(url), []) if matches!(url.scheme(), "http" | "https") => self.check_url(tool),
            (Some(url), []) => {
                contradiction(format!("plugins.{tool}.mcp.url is `{url}`\nhint: use a URL with http:// or https://"))
            }
            _ => contradiction(format!(
                "plugins.{tool}.mcp needs either `command` or `url`\nhint: set exactly one of them"
            )),
        }
    }

    fn check_command(&self, tool: &str) -> Result<(), RunFileError> {
        if self.private || self.secret.is_some() {
            return Err(RunFileError::Contradiction(format!(
                "plugins.{tool}.mcp: `private` and `secret` belong to a `url`\nhint: remove them; `network = true` lets a \
                 program use the network"
            )));
        }
        match &self.folder {
            Some(folder) if folder.is_relative() => Err(RunFileError::Contradiction(format!(
                "plugins.{tool}.mcp.folder is `{}`\nhint: use an absolute path",
                folder.display()
            ))),
            _ => Ok(()),
        }
    }

    fn check_url(&self, tool: &str) -> Result<(), RunFileError> {
        if self.network || self.folder.is_some() || !self.env.is_empty() || !self.env_from.is_empty() {
            return Err(RunFileError::Contradiction(format!(
                "plugins.{tool}.mcp: `env`, `env_from`, `folder` and `network` belong to a `command`\nhint: remove them"
            )));
        }
        Ok(())
    }
}
