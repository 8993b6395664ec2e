//! Code shared by the benches and the studies: plugins, a rollout over them, timing and printing.

pub mod effort;
pub mod figures;
pub mod trainer;

pub use effort::Effort;
