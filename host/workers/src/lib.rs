//! Groups of a run played by workers on other machines, over NATS with JetStream.
//!
//! ```text
//!  trainer's machine                     bus                         worker's machine
//!  Dispatcher ── job of a group ──► work-queue stream ──► Worker ── plays the group in its sandbox
//!      ▲  ◄── policy calls, answered by the run's models ───┤
//!      └─ ◄── records of the group ─────────────────────────┘  then the job is acknowledged
//! ```
//!
//! The trainer's machine keeps the models and the run's folder. A worker needs neither: it fetches the run's plugins,
//! assets and chat format from the bus by their digests, and asks the trainer's models for tokens. Jobs are delivered at
//! least once, since an unacknowledged job goes to another worker; the trainer takes the first result of a job alone.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bus;
mod description;
mod files;
mod limits;
mod messages;
mod objects;
mod signature;
mod trainer;
mod worker;

pub use signature::{Signer, WorkerKeys};
pub use trainer::{Dispatched, Dispatcher, DispatcherSettings, RunOnBus, TrainersBus};
pub use worker::{Worked, Worker, WorkerSettings};
