//! Commands of `host` that read runs, and that describe the program.

pub mod cache;
pub mod completions;
pub mod page;
pub mod replay;
pub mod rescore;
pub mod show;
pub mod version;
