//! Bounds of what an episode's plugins add to its record: bytes, outbound calls and log lines.

pub(crate) mod budget;
pub(crate) mod log;
pub(crate) mod quota;
