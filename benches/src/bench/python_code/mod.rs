//! Python in the sandbox and around it.

pub mod package;
pub mod tool;
