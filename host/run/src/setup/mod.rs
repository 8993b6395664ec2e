//! The parts of a run with a model: its files and its chat format.

pub mod chat;
pub mod models;
pub(crate) mod prompts;
