//! Shared test fixtures: hand-made components and registries of them.
#![allow(unused_imports, reason = "each test file uses some of these")]

pub mod plugins;
pub mod registry;

pub use plugins::*;
pub use registry::*;
