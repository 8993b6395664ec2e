//! Settings of the suite.

use std::collections::BTreeMap;
use std::sync::Arc;

use gymkhana_record::{NamedValue, Value};
use gymkhana_sandbox::{Assets, Limits, LogSink, Plugin};

use crate::FinishedEpisode;

/// Default limit of instructions per call, about one second's worth: the default of a run.
const MAX_FUEL: u64 = 1_000_000_000;

/// Default limit of memory per instance where an author tries out a plugin, in bytes. It is above the default of a run,
/// because no run file says what a plugin with a language runtime may use: CPython with SymPy begins with 72 MiB.
pub const MAX_MEMORY: u64 = 256 << 20;

/// Default maximum number of option settings.
const MAX_SETTINGS: usize = 32;

/// Settings of a check of one plugin.
#[derive(Clone)]
pub struct SuiteSettings {
    /// Root seed of all random choices.
    pub seed: u64,
    /// Number of random and fuzzed actions.
    pub steps: u64,
    /// Options for every start, session and scoring.
    pub options: Vec<NamedValue>,
    /// Maximum number of option settings that are tried besides `options`, at the limits of the declared options.
    pub most_settings: usize,
    /// Whether a plugin with costly starts gets a thinned suite, whose report no registry accepts.
    pub thin_costly: bool,
    /// Limit of instructions per call.
    pub most_fuel: u64,
    /// Limit of memory per instance, in bytes.
    pub most_memory: u64,
    /// Files to mount for the plugin.
    pub assets: Assets,
    /// Setup of a tool's session; replaces the setups that environments prepare.
    pub setup: Option<Vec<u8>>,
    /// Plugins given with the checked one, each with its options: tools for an oracle, rewards that decide success,
    /// environments that prepare a tool's setup or produce episodes for a reward.
    pub beside: Vec<(Plugin, Vec<NamedValue>)>,
    /// Recorded episodes for a reward to score, by group.
    pub recorded: Vec<Vec<FinishedEpisode>>,
    /// Receiver of the plugin's log.
    pub log: Option<Arc<dyn LogSink>>,
}

impl Default for SuiteSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            steps: 1000,
            options: vec![],
            most_settings: MAX_SETTINGS,
            thin_costly: false,
            most_fuel: MAX_FUEL,
            most_memory: MAX_MEMORY,
            assets: Assets::default(),
            setup: None,
            beside: vec![],
            recorded: vec![],
            log: None,
        }
    }
}

/// Limits of the sandbox in which plugins are checked. They exceed the limits of the checks, so that a violation is
/// measured and reported. Endless calls are bounded in instructions, so that they end the same on every machine.
#[must_use]
pub fn limits(settings: &SuiteSettings) -> Limits {
    let patience = std::time::Duration::from_secs(3600);
    Limits {
        budget: patience,
        episode_budget: patience,
        wall: patience,
        fuel_per_call: Some(settings.most_fuel.saturating_mul(2)),
        memory_bytes: usize::try_from(settings.most_memory.saturating_mul(2)).unwrap_or(usize::MAX),
        ..Limits::default()
    }
}

/// An option as `NAME=VALUE`.
pub(crate) struct Assignment<'a>(pub(crate) &'a NamedValue);

impl std::fmt::Display for Assignment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NamedValue { name, value } = self.0;
        match value {
            Value::Flag(flag) => write!(f, "{name}={flag}"),
            Value::Integer(integer) => write!(f, "{name}={integer}"),
            Value::Number(amount) => write!(f, "{name}={amount:?}"),
            Value::Text(text) | Value::Other(text) => write!(f, "{name}={text:?}"),
            Value::Bytes(bytes) => write!(f, "{name}=[{} bytes]", bytes.len()),
        }
    }
}

/// Merges options by name; later ones replace earlier ones.
pub(crate) fn with(options: &[NamedValue], more: &[NamedValue]) -> Vec<NamedValue> {
    let all = options.iter().chain(more).map(|option| (option.name.clone(), option.clone()));
    all.collect::<BTreeMap<_, _>>().into_values().collect()
}
