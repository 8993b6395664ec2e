//! Environments: their episodes without Python, and the classes that show them to it.

pub mod action;
mod chunk;
pub mod described;
pub mod env;
pub mod saved;
mod transition;
pub mod vector;
