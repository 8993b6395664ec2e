//! Loads plugins and calls them inside their limits.
//!
//! A plugin is untrusted code that an agent's words drive. It gets a store of its own for each episode, session or
//! scoring, and everything that it does is bounded: its running time, its memory, what it may return, what it may
//! write, and how many of its kind are live. Whatever it does comes back as a value or as a typed [`CallError`];
//! who pays for a failure is decided above this crate. WASI is virtual: a plugin sees no file, no network and no
//! time of the machine, so that its answers depend on its inputs and its seed alone.
//!
//! This crate does not schedule, retry or record, and it knows neither tokens nor models.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assets;
mod bindings;
mod cache;
mod capacity;
mod config;
mod convert;
mod engine;
mod environment;
mod error;
mod functions;
mod grant;
mod imports;
mod info;
mod live;
mod log;
mod meter;
mod plugin;
mod reward;
mod room;
mod sandbox;
mod spending;
mod state;
mod ticker;
mod tool;
mod wasi;
mod world;

pub use assets::Assets;
pub use cache::CacheError;
pub use capacity::places_for;
pub use config::{Limits, SandboxConfig};
pub use environment::{Action, Advice, EnvironmentEpisode, Picture, Snapshot, Started, StepResult};
pub use error::{CallError, CallFuture};
pub use grant::{Grants, Refusal};
pub use info::{ComponentInfo, EnvironmentInfo, OptionInfo, Range, RewardInfo, SplitInfo, ToolInfo};
pub use log::{LogLevel, LogLine};
pub use plugin::{LoadError, OptionalInterface, Plugin};
pub use reward::{Scorer, Trajectory, score};
pub use sandbox::{Counters, Sandbox, SandboxError};
pub use spending::Spent;
pub use tool::{Answer, ToolSession};
pub use world::{Outbound, OutboundError, OutboundFuture, Quota};
