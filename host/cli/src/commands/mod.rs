//! Commands of `host` that read runs.

pub mod replay;
pub mod rescore;
pub mod show;
