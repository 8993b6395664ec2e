//! Commands of `host` that train, evaluate and read runs, and that describe the program and the machine.

pub mod cache;
pub mod completions;
pub mod doctor;
pub mod eval;
pub mod generate;
pub mod reference;
pub mod replay;
pub mod rescore;
pub mod run;
pub mod show;
pub mod version;
