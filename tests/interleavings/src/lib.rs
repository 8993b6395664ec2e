//! Queues and locks of the program under shuttle, which runs them in many orders of their steps and finds deadlocks and lost
//! wake-ups. The sources are those of the crates; `tokio` is one of
//! shuttle's packages, and names of other crates are names of this one.
//!
//! A bound of a wait never passes here, so that a wake-up that a bound would hide is found as a deadlock.
#![allow(dead_code, reason = "the sources have more than is checked")]

// The names by which the sources import what is replaced.
extern crate self as gymkhana_http;
extern crate self as gymkhana_record;
extern crate self as gymkhana_waits;

#[path = "../../../host/workers/src/worker/ends.rs"]
mod ends;
#[path = "../../../host/rollout/src/episode/live_bytes.rs"]
mod live_bytes;
#[path = "../../../host/http/src/listener/places.rs"]
mod places;
#[path = "../../../host/sandbox/src/instance/pool.rs"]
mod pool;
#[path = "../../../host/workers/src/trainer/reading.rs"]
mod reading;
#[path = "../../../host/gateway/src/control/sessions.rs"]
mod sessions;
#[path = "../../../host/trainer/src/trainer/thread.rs"]
mod thread;

pub mod models;
pub mod stand_ins;

pub use stand_ins::offer::{ExternalPrograms, SessionOffer};
pub use stand_ins::*;
