//! Tools of an episode: the set that it may call, their sessions, and those of rewards.

pub mod reward_tools;
pub mod session;
pub mod tool_set;
pub mod toolbox;
