//! Loads plugins and calls them within their limits.
//!
//! A plugin is untrusted code that receives text written by a model. Each episode, session or scoring gets its own
//! store, and every resource is bounded: running time, memory, result size, log size and the number of live instances.
//! Every call returns a value or a typed [`CallError`]; the caller decides how a failure affects the episode. WASI is
//! virtual: a plugin has no access to files, the network or the machine's clock, so its results depend only on its
//! inputs and its seed.
//!
//! This crate does not schedule, retry or record, and it does not depend on tokens or models.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bindings;
mod cache;
mod calls;
mod compiler;
mod config;
mod convert;
mod description;
mod engine;
mod error;
mod exports;
mod grants;
mod guest_threads;
mod imports;
mod info;
mod instance;
mod mappings;
mod optional_interface;
mod plugin;
mod sandbox;
mod split;
pub mod unsandboxed;

pub use cache::{CacheEntry, CacheError, CacheFolder};
pub use calls::Snapshot;
pub use calls::environment::EnvironmentEpisode;
pub use calls::environment::results::{Action, Advice, Image, ResetResult, StepResult};
pub use calls::reward::{Scorer, score};
pub use calls::tool::{ToolOutput, ToolSession};
pub use calls::trajectory::Trajectory;
pub use compiler::{Compiler, CompilerProgram, compile_as_asked, compile_with, run_as_compiler};
pub use config::{DEFAULT_CACHE_BYTES, Limits, SandboxConfig};
pub use description::{Inspection, describe};
pub use engine::code_form::{CompilerEffort, ProcessOwner};
pub use error::{CallError, CallFuture, PluginErrorKind, SandboxError};
pub use grants::{Grants, Refusal};
pub use guest_threads::{GUEST_THREAD_NAME, GuestThreads, run_on};
pub use imports::assets::{AssetContent, AssetReader, Assets};
pub use imports::log::{LogLine, LogSink};
pub use imports::outbound::{Outbound, OutboundError, OutboundFuture, Quota};
pub use info::{ComponentInfo, EnvironmentInfo, OptionInfo, Range, RewardInfo, SplitInfo, ToolInfo};
pub use instance::budget::Spent;
pub use instance::pool::{max_map_count, places_for};
pub use optional_interface::OptionalInterface;
pub use plugin::wrapping::WrapError;
pub use plugin::{LoadError, Plugin};
pub use sandbox::{Counters, Sandbox};
