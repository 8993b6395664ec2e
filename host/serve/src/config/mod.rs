//! `serve.toml`: what a server offers, to whom, and within which limits.

mod limits;
mod listen;
mod verltool;

use std::collections::BTreeMap;
use std::path::Path;

use gymkhana_config::{
    EnvironmentSection, EpisodeRules, FailuresSection, LimitsSection, Options, WrapperEntry, parse_with_rules,
};
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_rules::ContextStrategy;
use serde::{Deserialize, Serialize};
use toml::Table;

pub use limits::SessionLimits;
pub use listen::{ClientSection, ListenSection, TlsSection};
pub use verltool::{TagSection, VerlToolSection};

/// Turns, calls, and time in seconds of an episode where the file sets no limits: clients decide about its length.
const UNLIMITED: (u32, u32, f64) = (100_000, 100_000, 1e6);

/// The file `serve.toml`. Every key has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServeFile {
    /// Rules of all episodes, with the keys of a run file.
    #[serde(skip)]
    pub rules: EpisodeRules,
    /// Settings of the listener.
    pub listen: ListenSection,
    /// Clients with their tokens. Without a section, everyone who reaches the server is one client.
    pub clients: BTreeMap<String, ClientSection>,
    /// Bounds of the table of sessions.
    pub sessions: SessionLimits,
    /// Options and reward weight of the environment `NAME`.
    pub environments: BTreeMap<String, EnvironmentOptions>,
    /// Settings of VerlTool's endpoint.
    pub verltool: VerlToolSection,
}

impl Default for ServeFile {
    fn default() -> Self {
        let (turns, calls, seconds) = UNLIMITED;
        let limits = LimitsSection { turns, calls, seconds, ..LimitsSection::default() };
        Self {
            rules: EpisodeRules { limits, ..EpisodeRules::default() },
            listen: ListenSection::default(),
            clients: BTreeMap::new(),
            sessions: SessionLimits::default(),
            environments: BTreeMap::new(),
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
        let limits = Table::try_from(&Self::default().rules.limits).internal()?;
        let defaults = Table::from_iter([("limits".to_owned(), limits.into())]);
        let (rules, rest) = parse_with_rules(text, origin, &defaults).user_error()?;
        let file = Self { rules, ..rest };
        file.check_unused()?;
        file.rules.check().user_error()?;
        file.listen.check()?;
        file.sessions.check()?;
        Ok(file)
    }

    /// The rules of the episodes of one environment with these plugins, by their short names.
    pub(crate) fn rules_of(&self, environment: &str, plugins: &[&str]) -> EpisodeRules {
        let mut rules = self.rules.clone();
        if let Some(own) = self.environments.get(environment) {
            rules.environment = EnvironmentSection {
                weight: own.weight,
                gate: own.gate.clone(),
                options: own.options.clone(),
                wrap: own.wrap.clone(),
                ..EnvironmentSection::default()
            };
        }
        rules.retain_plugins(|name| plugins.contains(&name));
        rules
    }

    /// Rejects rules that have no effect, because clients play.
    fn check_unused(&self) -> RunResult<()> {
        let EpisodeRules { environment, seats, context, failures, .. } = &self.rules;
        let unused = [
            ("environment", *environment != EnvironmentSection::default(), "write its keys in [environments.NAME]"),
            ("seats", !seats.is_empty(), "remove it: clients play all seats"),
            ("context", *context != ContextStrategy::default(), "remove it: clients keep the context"),
            ("failures", *failures != FailuresSection::default(), "remove it: clients begin another episode"),
        ];
        match unused.into_iter().find(|(_, is_set, _)| *is_set) {
            Some((section, _, hint)) => {
                Err(RunError::user(format!("[{section}] has no effect on a server")).with_hint(hint))
            }
            None => Ok(()),
        }
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
        assert!(wrong("[limits]\nepisode_mib = 500").contains("`limits.episode_mib` is 500; it must be 128 or less"));
        assert!(wrong("[context]\nstrategy = 'window'").starts_with("[context] has no effect on a server\nhint: "));
        assert!(wrong("environment = { weight = 2 }").contains("write its keys in [environments.NAME]"));
    }
}
