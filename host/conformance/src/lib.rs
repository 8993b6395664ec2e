//! The conformance suite: checks of the plugin contract, and the report of their outcomes.
//!
//! The suite starts episodes, sessions and scorings itself, through the sandbox and the episode driver, so that a check
//! needs neither a model nor a run. All random choices derive from the seed in the settings, and limits are counted in instructions
//! and bytes instead of seconds, so that a report is the same on every machine.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod action;
mod checks;
mod driver;
mod examples;
mod finding;
mod finished_episode;
mod fixture;
mod measure;
mod path;
mod play;
mod settings;
mod suite;
mod synthetic_outbound;
mod tree;

pub use checks::CheckInfo;
pub use finished_episode::FinishedEpisode;
pub use measure::{MeasureProgress, Measured, measure};
pub use settings::{MAX_MEMORY, SuiteSettings, limits};
pub use suite::{SuiteError, all_checks, check_plugin};
