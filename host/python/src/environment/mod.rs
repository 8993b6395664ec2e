//! Environments: their episodes without Python, and the classes that show them to it.

pub mod action;
mod chunk;
pub mod env;
pub mod episode;
mod record;
pub mod saved;
pub mod spec;
pub mod task;
mod transition;
pub mod vector;
