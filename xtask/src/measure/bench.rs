//! Benches: runs the program of `benches/`, which prints one JSON line per result.

use std::path::Path;
use std::process::Command;

use super::{BENCHES, Bench, baselines, build_program, name};
use crate::foreign;
use crate::python_package;
use crate::setup;
use crate::step::{UserError, execute, execute_for_result, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Packages that the bench `tools` compares with.
const IPYKERNEL: &str = include_str!("../../requirements/ipykernel.txt");

/// The gateway that the bench `gateway` compares with.
const RLLM: &str = include_str!("../../requirements/rllm.txt");

/// Packages that the bench `python` compares with.
const PYTHON: &str = include_str!("../../requirements/python-bench.txt");

/// Sets up and measures the named benches, or all.
///
/// With `baselines`, the trainer is compared with other trainers' programs in that folder.
pub fn run(workspace: &Workspace, names: &[Bench], smoke: bool, baselines: Option<&Path>) -> anyhow::Result<()> {
    if let Some(folder) = baselines {
        if names != [Bench::Trainer] {
            let hint = "hint: run `cargo xtask bench trainer --baselines DIR`";
            return Err(UserError(format!("--baselines needs the bench `trainer` and no other\n{hint}")).into());
        }
        return baselines::run(workspace, folder);
    }
    setup::run(workspace)?;
    run_built(workspace, names, smoke)
}

/// Measures after the set-up. A smoke run prints its results with the progress, as they mean nothing.
pub fn run_built(workspace: &Workspace, names: &[Bench], smoke: bool) -> anyhow::Result<()> {
    if names.is_empty() || names.contains(&Bench::Tools) {
        foreign::build(workspace)?;
        step("ipykernel", || ensure_python(&workspace.root, "ipykernel", IPYKERNEL))?;
    }
    if names.is_empty() || names.contains(&Bench::Gateway) {
        step("rllm-model-gateway", || ensure_python(&workspace.root, "rllm", RLLM))?;
    }
    if names.is_empty() || names.contains(&Bench::Python) {
        python_package::make_environment(workspace, "python-bench", PYTHON)?;
    }
    step(if smoke { "benches: one round" } else { "benches" }, || {
        let mut command = Command::new(build_program(workspace, BENCHES)?);
        command.arg("run").args(names.iter().map(name)).current_dir(&workspace.root);
        if smoke { execute(command.arg("--smoke")) } else { execute_for_result(&mut command) }
    })
}
