//! Folders of runs: damage, determinism, failures, metrics, spans, and rescoring.

#[path = "../common/mod.rs"]
mod common;
mod contracts;
mod damage;
mod determinism;
mod failures;
mod metrics;
mod page;
mod reference;
mod rescore;
mod trace;
mod workers;
