//! Commands of `host` that read runs, and that describe the program and the machine.

pub mod cache;
pub mod completions;
pub mod data;
pub mod doctor;
pub mod gateway;
pub mod replay;
pub mod rescore;
pub mod serve;
pub mod show;
pub mod version;
