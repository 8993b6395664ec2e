//! The trainer through its public interface. Tests of the whole process are programs of their own.

mod adapters;
mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
mod figures;
mod generation;
mod goldens;
mod kernels;
mod learning;
mod seats;
mod step_bound;
mod steps;
mod temperature;
mod trees;
