//! Construction of a run's parts from its run file: plugins, grants, rewards, models, chat format, rollout.

pub mod chat;
pub mod code_cache;
pub mod grants;
pub mod models;
mod options;
pub mod plugins;
pub mod rewards;
pub mod rollout;

pub use options::named_values;
