//! Mechanism checks: trains tiny models with a method and without it, prints what was seen and draws it.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::setup::{self, run_cargo};
use crate::step::{execute, step};
use crate::workspace::Workspace;

const EXAMPLE: &str = "study";

/// Sets up, runs a study with so many seeds, prints its JSON lines, and draws `docs/studies/NAME.svg`.
pub fn run(workspace: &Workspace, name: &str, seeds: u32) -> anyhow::Result<()> {
    setup::run(workspace)?;
    step(&format!("study {name}"), || {
        run_cargo(workspace, &["build", "--release", "--workspace", "--exclude", "xtask", "--example", EXAMPLE])?;
        let program = workspace.target.join("release").join("examples").join(EXAMPLE);
        let mut command = Command::new(program);
        command.args([name, &seeds.to_string()]).current_dir(&workspace.root).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("study `{name}` does not start"))?;
        if !output.status.success() {
            bail!("study `{name}` failed ({}); what it said stands above", output.status);
        }
        print(&String::from_utf8_lossy(&output.stdout));
        // Kept whole, as the plot shows one figure alone.
        let folder = workspace.target.join("studies");
        fs::create_dir_all(&folder).with_context(|| format!("`{}` cannot be made", folder.display()))?;
        let lines = folder.join(format!("{name}.jsonl"));
        fs::write(&lines, &output.stdout).with_context(|| format!("`{}` cannot be written", lines.display()))?;
        let plot = workspace.root.join("docs").join("studies").join(format!("{name}.svg"));
        execute(Command::new("python3").arg(workspace.root.join("docs/plot_study.py")).args([plot, lines]))
    })
}

#[allow(clippy::print_stdout, reason = "the figures are this command's result")]
fn print(lines: &str) {
    print!("{lines}");
}
