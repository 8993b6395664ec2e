//! Commands of `host` that read runs, and that describe the program and the machine.

pub mod cache;
pub mod completions;
pub mod doctor;
pub mod gateway;
pub mod page;
pub mod replay;
pub mod rescore;
pub mod serve;
mod serve_export;
mod session_workers;
pub mod show;
pub mod version;
pub mod worker;
