//! Tests against reference implementations in Python: `cargo xtask test --reference`.

use std::fs;
use std::process::Command;

use anyhow::Context;

use crate::step::{cargo, execute, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Locked requirements of the Python programs, those of `host/store/tests` and `host/cli/tests` included.
const REQUIREMENTS: &str = "tests/reference/requirements.txt";

/// The program that calls all others of `tests/reference`.
const PROGRAM: &str = "tests/reference/run.py";

/// Runs the programs of `tests/reference` and the Rust tests named `reference`, in one Python environment.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("reference: Python", || {
        let locked = fs::read_to_string(workspace.root.join(REQUIREMENTS))
            .with_context(|| format!("cannot read `{REQUIREMENTS}`"))?;
        ensure_python(&workspace.root, "reference", &locked)
    })?;
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
