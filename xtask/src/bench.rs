//! Measures: runs the example programs that print one JSON line a figure.

use std::process::Command;

use crate::arguments::BENCHES;
use crate::setup::{self, run_cargo};
use crate::step::{execute_for_result, step};
use crate::workspace::Workspace;

/// Sets up and measures what `name` says, or everything.
pub fn run(workspace: &Workspace, name: Option<&str>) -> anyhow::Result<()> {
    setup::run(workspace)?;
    let chosen = BENCHES.into_iter().filter(|(bench, _)| name.is_none_or(|name| name == *bench));
    for (bench, program) in chosen {
        // Selected from the whole workspace for the same reason as the host: nothing heavy is compiled twice.
        let build = ["build", "--release", "--workspace", "--exclude", "xtask", "--example", program];
        step(&format!("bench {bench}"), || {
            run_cargo(workspace, &build)?;
            let program = workspace.target.join("release").join("examples").join(program);
            execute_for_result(Command::new(program).arg(bench).current_dir(&workspace.root))
        })?;
    }
    Ok(())
}
