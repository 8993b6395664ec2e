//! Groups of a run, and sessions of a server, played by workers on other machines, over NATS with JetStream.
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
//!
//! ```text
//!  server                                bus                         worker's machine
//!  SessionCoordinator ── request of a place ──► subject of the worker ──► EpisodeHost ── plays the episode in its sandbox
//!      ▲  ◄── answer with the new state ────┤
//!      └─ ◄── signs of life ────────────────┘
//! ```
//!
//! A server keeps its endpoints, sessions and records, and the state of each episode after its last turn. An episode
//! stays at one worker; when the worker is lost, another one continues it from that state.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bus;
mod codec;
mod coordinator;
mod description;
mod dropped;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod limits;
mod messages;
mod objects;
mod publication;
mod reply;
mod signature;
mod signed;
mod trainer;
mod worker;

pub use coordinator::{FrontSettings, SessionCoordinator};
pub use signature::{Signer, WorkerKeys};
pub use trainer::{BusWorkers, DispatcherSettings};
pub use worker::{Worked, Worker, WorkerSettings};
