//! Recorded episodes: those of a run in groups, those of several runs that meet a filter, and those of servers.

pub(crate) mod groups;
pub mod runs;
pub(crate) mod server;
