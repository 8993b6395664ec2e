//! Whole runs by the binary `host`: what is trained on, with which models, plugins and grants.

mod absence;
mod agents;
mod algorithms;
#[path = "../common/mod.rs"]
mod common;
mod contexts;
mod evaluating;
mod exhausted;
mod grants;
mod hub;
mod in_turn;
mod memory;
mod messages;
mod mixture;
mod named_plugins;
mod overlap;
#[path = "../../../../tests/tests/peer/mod.rs"]
mod peer;
mod plans;
mod probes;
mod records;
mod resuming;
mod roles;
mod run;
mod samplers;
mod schedules;
mod seats;
mod servers;
mod stopping;
mod terminal;
mod wrappers;
