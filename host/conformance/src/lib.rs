//! Whether a plugin keeps the contract: a suite of checks that plays with it, and a report.
//!
//! The suite knows the sandbox and nothing above it: it starts episodes, sessions and scorings itself, so that what it
//! finds needs no model and no run. Everything that it does follows from its settings' seed, and what it holds against a
//! limit is counted in instructions and bytes and never in seconds: the publisher's report comes out the same anywhere.
//! It does not sign, store or send reports.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod acts;
mod bench;
mod checks;
mod examples;
mod finding;
mod measure;
mod path;
mod play;
mod settings;
mod stage;
mod suite;
mod tale;
mod world;

pub use measure::{Measured, measure};
pub use settings::{Settings, limits};
pub use suite::{CheckInfo, SuiteError, all_checks, check_plugin};
pub use tale::FinishedEpisode;
