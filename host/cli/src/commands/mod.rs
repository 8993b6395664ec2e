//! Commands of `host` that train, evaluate and read runs.

pub mod eval;
pub mod generate;
pub mod reference;
pub mod replay;
pub mod rescore;
pub mod run;
pub mod show;
