//! `serve.toml`: what a server offers, to whom, and within which limits.

mod limits;
mod listen;
mod run_file;
mod verltool;

use std::collections::BTreeMap;
use std::path::Path;

use gymkhana_config::{ModelSection, Options, PluginSection, RewardSection, SandboxSection, ToolSection, WrapperEntry};
use gymkhana_orchestration::{Classify, RunError, RunResult};
use serde::{Deserialize, Serialize};

pub use limits::{EpisodeLimits, SessionLimits};
pub use listen::{ClientSection, ListenSection, TlsSection};
pub(crate) use run_file::run_file;
pub use verltool::{TagSection, VerlToolSection};

/// Default success rule: the environment's fact `success`.
const SUCCESS: &str = "environment.success";

/// The file `serve.toml`. Every key has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServeFile {
    /// Success rule of records, as in a run file.
    pub success: String,
    /// Settings of the listener.
    pub listen: ListenSection,
    /// Clients with their tokens. Without a section, everyone who reaches the server is one client.
    pub clients: BTreeMap<String, ClientSection>,
    /// Bounds of the table of sessions.
    pub sessions: SessionLimits,
    /// Limits of one episode.
    pub episode: EpisodeLimits,
    /// Options and reward weight of the environment `NAME`.
    pub environments: BTreeMap<String, EnvironmentOptions>,
    /// Options of the tool `NAME`, as in a run file.
    pub tools: BTreeMap<String, ToolSection>,
    /// Options and weight of the reward `NAME`, as in a run file.
    pub rewards: BTreeMap<String, RewardSection>,
    /// Grants of the plugin `NAME`, as in a run file.
    pub plugins: BTreeMap<String, PluginSection>,
    /// Models that plugins may call, as in a run file.
    pub models: BTreeMap<String, ModelSection>,
    /// Resource limits of plugin calls, as in a run file.
    pub sandbox: SandboxSection,
    /// Settings of VerlTool's door.
    pub verltool: VerlToolSection,
}

impl Default for ServeFile {
    fn default() -> Self {
        Self {
            success: SUCCESS.to_owned(),
            listen: ListenSection::default(),
            clients: BTreeMap::new(),
            sessions: SessionLimits::default(),
            episode: EpisodeLimits::default(),
            environments: BTreeMap::new(),
            tools: BTreeMap::new(),
            rewards: BTreeMap::new(),
            plugins: BTreeMap::new(),
            models: BTreeMap::new(),
            sandbox: SandboxSection::default(),
            verltool: VerlToolSection::default(),
        }
    }
}

/// Options, reward weight and wrappers of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentOptions {
    /// Factor of the sum of the environment's rewards.
    pub weight: f64,
    /// Condition under which the rewards count, such as `answer-match.correct >= 0.5`.
    pub gate: Option<String>,
    /// Options of the plugin.
    pub options: Options,
    /// Wrappers around the environment, the outermost first, as in a run file.
    pub wrap: Vec<WrapperEntry>,
}

impl Default for EnvironmentOptions {
    fn default() -> Self {
        Self { weight: 1.0, gate: None, options: Options::new(), wrap: vec![] }
    }
}

impl ServeFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is malformed, or has a value out of range.
    pub fn read(path: &Path) -> RunResult<Self> {
        let origin = path.display().to_string();
        let cannot = || format!("`{origin}` cannot be read\nhint: name a file with --config");
        Self::parse(&std::fs::read_to_string(path).user_context(cannot())?, &origin)
    }

    /// Parses the text of a file; `origin` names it in messages.
    ///
    /// # Errors
    /// If it is malformed or has a value out of range.
    pub fn parse(text: &str, origin: &str) -> RunResult<Self> {
        let file: Self = toml::from_str(text).map_err(|error| {
            RunError::user(format!("`{origin}` is malformed: {}", error.to_string().trim_end()))
                .with_hint("docs/how-to/serve-plugins.md lists the keys")
        })?;
        file.listen.check()?;
        file.sessions.check()?;
        file.episode.check()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_has_the_defaults() {
        assert_eq!(ServeFile::parse("", "serve.toml").unwrap(), ServeFile::default());
    }

    #[test]
    fn a_wrong_key_or_value_is_named() {
        let wrong = |text: &str| ServeFile::parse(text, "serve.toml").unwrap_err().to_string();
        assert!(wrong("[sessions]\nidle = 3").contains("unknown field `idle`"), "{}", wrong("[sessions]\nidle = 3"));
        assert!(wrong("[sessions]\nmax = 0").starts_with("sessions.max is 0"));
        assert!(wrong("[episode]\nmib = 500").starts_with("episode.mib is 500"));
    }
}
