//! Snapshots as bytes, for other processes.

pub mod episode;
pub mod session;
