//! Recorded episodes: those of a run in groups, and those of several runs that meet a filter.

pub(crate) mod groups;
pub mod runs;
