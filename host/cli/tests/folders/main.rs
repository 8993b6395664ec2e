//! Folders of runs: damage, determinism, failures, metrics, spans, and rescoring.

#[path = "../common/mod.rs"]
mod common;
mod contracts;
mod damage;
mod determinism;
mod failures;
mod metrics;
mod page;
#[path = "../../../../tests/tests/peer/mod.rs"]
mod peer;
mod reference;
mod rescore;
mod soak;
mod trace;
mod workers;
