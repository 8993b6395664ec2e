//! The parts of a run that need no model, built from its run file: plugins, grants, rewards and the rollout. Training,
//! evaluation, replay and rescoring share them. Without libtorch.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chat;
pub mod code_cache;
pub mod environments;
mod error;
pub mod grants;
mod host_io;
pub mod machine;
mod mcp;
mod options;
pub mod plugins;
pub mod recorded_runs;
mod report;
pub mod rewards;
pub mod rollout;
pub mod sampler;
mod schedule;
pub mod seats;
pub mod served;
mod tools_only;
pub mod trace;

pub use error::{Classify, RunError, RunErrorKind, RunResult};
pub use host_io::OnHost;
pub use mcp::pinned_servers;
pub use options::named_values;
pub use recorded_runs::groups::groups;
pub use recorded_runs::{recorder, run_file_of};
pub use report::{Later, Progress, ProgressFigures, Reporter, Silent, SuccessRate, Work, describe};
pub use schedule::run_key::RunKey;
pub use schedule::{mixture, places, remote, scheduler, seat_players, tasks};
pub use served::server;
pub use tools_only::{TOOLS_ONLY, TOOLS_ONLY_SPLIT, is_tools_only, tools_only};
