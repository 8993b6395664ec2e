//! Measures: runs the example programs that print one JSON line a figure.

use std::process::Command;

use crate::arguments::BENCHES;
use crate::authors;
use crate::peers::ensure_python;
use crate::setup::{self, run_cargo};
use crate::step::{execute_for_result, step};
use crate::workspace::Workspace;

/// What the tools are compared with.
const IPYKERNEL: &str = "ipykernel==6.30.1\njupyter-client==8.6.3\n";

/// Sets up and measures what `name` says, or everything.
pub fn run(workspace: &Workspace, name: Option<&str>) -> anyhow::Result<()> {
    setup::run(workspace)?;
    if name.is_none_or(|name| name == "tools") {
        authors::build(workspace)?;
        step("ipykernel", || ensure_python(&workspace.root, "ipykernel", IPYKERNEL))?;
    }
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
