//! Tests against reference implementations in Python: `cargo xtask test --reference`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::step::{cargo, execute, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Pinned requirements of the Python programs.
const REQUIREMENTS: [&str; 3] = [
    "tests/reference/requirements.txt",
    "host/store/tests/reference_requirements.txt",
    "host/cli/tests/reference_requirements.txt",
];

/// The program that calls all others of `tests/reference`.
const PROGRAM: &str = "tests/reference/run.py";

/// Runs the programs of `tests/reference` and the Rust tests named `reference`, in one Python environment.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let python =
        step("reference: Python", || ensure_python(&workspace.root, "reference", &requirements(&workspace.root)?))?;
    step("reference: programs", || {
        execute(Command::new(&python).args([PROGRAM, "--repo", "."]).current_dir(&workspace.root))
    })?;
    step("reference: tests", || {
        execute(
            cargo()
                .args([
                    "test",
                    "--release",
                    "--workspace",
                    "--test",
                    "reference",
                    "--test",
                    "folders",
                    "--",
                    "--ignored",
                ])
                .env("GYMKHANA_REFERENCE_PYTHON", &python)
                .current_dir(&workspace.root),
        )
    })
}

fn requirements(root: &Path) -> anyhow::Result<String> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("cannot read `{file}`"));
    REQUIREMENTS.into_iter().map(read).collect()
}
