//! What a suite may be told.

use std::collections::BTreeMap;

use gymkhana_record::NamedValue;
use gymkhana_sandbox::{Assets, Limits, Plugin};

use crate::FinishedEpisode;

/// Instructions of one call that pass, about a second's worth: what a run allows a call unless it is told otherwise.
const MOST_FUEL: u64 = 1_000_000_000;

/// How a plugin is checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed of everything random.
    pub seed: u64,
    /// How many random and fuzzed actions are made.
    pub steps: u64,
    /// Options for every start, session and scoring.
    pub options: Vec<NamedValue>,
    /// The most instructions of one call that pass.
    pub most_fuel: u64,
    /// The most memory of one instance that passes, in bytes.
    pub most_memory: u64,
    /// Files that are mounted for the plugin.
    pub assets: Assets,
    /// What a tool is given when its session opens, instead of what an environment beside it prepares.
    pub setup: Option<Vec<u8>>,
    /// Plugins beside it: tools for an oracle, rewards that tell success, environments that prepare a tool or give a
    /// reward something to score. Each with its options.
    pub beside: Vec<(Plugin, Vec<NamedValue>)>,
    /// Finished episodes for a reward to score, by group.
    pub recorded: Vec<Vec<FinishedEpisode>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            steps: 1000,
            options: vec![],
            most_fuel: MOST_FUEL,
            most_memory: Limits::default().memory_bytes as u64,
            assets: Assets::default(),
            setup: None,
            beside: vec![],
            recorded: vec![],
        }
    }
}

/// The limits of a sandbox in which plugins are checked: room beyond what passes, so that what exceeds it is measured
/// and told, and a bound in instructions, so that a call without an end has the same end on every machine.
#[must_use]
pub fn limits(settings: &Settings) -> Limits {
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

/// Options by name, the later ones in place of the earlier.
pub(crate) fn with(options: &[NamedValue], more: &[NamedValue]) -> Vec<NamedValue> {
    let all = options.iter().chain(more).map(|option| (option.name.clone(), option.clone()));
    all.collect::<BTreeMap<_, _>>().into_values().collect()
}
