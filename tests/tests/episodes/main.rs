//! Episodes over real components with scripted policies.

mod agents;
mod budgets;
#[path = "../common/mod.rs"]
mod common;
mod context_properties;
mod contexts;
mod costs;
mod episode_machine;
mod failures;
mod forging;
mod forks;
mod host_faults;
mod places;
mod plans;
mod probes;
#[path = "../common/recorder.rs"]
mod recorder;
mod rollout;
mod trials;
mod watch;
