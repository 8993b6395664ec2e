//! Measurements: benches, studies and the demo.

pub mod baselines;
pub mod bench;
pub mod demo;
pub mod first_run;
pub mod gpu_pack;
pub mod install;
pub mod slowest;
pub mod study;

#[path = "../../../benches/src/name.rs"]
mod bench_name;
#[path = "../../../studies/src/name.rs"]
mod study_name;

pub use bench_name::Bench;
pub use study_name::StudyName;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::setup::run_cargo;
use crate::workspace::Workspace;

/// The bin target of the benches.
const BENCHES: &str = "gymkhana-benches";

/// Name of a bench or a study on the command line.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Builds the program of a package and returns its path. The whole workspace is selected because cargo unites the
/// features of packages built together: a smaller selection would compile libtorch's binding and wasmtime again.
fn build_program(workspace: &Workspace, package: &str) -> anyhow::Result<PathBuf> {
    run_cargo(workspace, &["build", "--release", "--workspace", "--exclude", "xtask", "--bin", package])?;
    Ok(workspace.target.join("release").join(package))
}
