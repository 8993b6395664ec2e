//! Mechanism checks: trains tiny models with a method and without it, prints what was seen and draws it.

use std::fs;
use std::io::{BufRead, BufReader};
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
        command.args([name, &seeds.to_string()]).current_dir(&workspace.root);
        let seen = run_aloud(&mut command).with_context(|| format!("study `{name}`"))?;
        // Kept whole, as the plot shows one figure alone.
        let folder = workspace.target.join("studies");
        fs::create_dir_all(&folder).with_context(|| format!("`{}` cannot be made", folder.display()))?;
        let lines = folder.join(format!("{name}.jsonl"));
        fs::write(&lines, &seen).with_context(|| format!("`{}` cannot be written", lines.display()))?;
        let plot = workspace.root.join("docs").join("studies").join(format!("{name}.svg"));
        execute(Command::new("python3").arg(workspace.root.join("docs/plot_study.py")).args([plot, lines]))
    })
}

/// Runs a program, shows each line when it comes, and gives them all.
#[allow(clippy::print_stdout, reason = "the figures are this command's result")]
fn run_aloud(command: &mut Command) -> anyhow::Result<String> {
    let mut program = command.stdout(Stdio::piped()).spawn().context("the program does not start")?;
    let output = program.stdout.take().context("the program has no output")?;
    let mut seen = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("the program's output cannot be read")?;
        println!("{line}");
        seen.push_str(&line);
        seen.push('\n');
    }
    let status = program.wait().context("the program cannot be waited for")?;
    if !status.success() {
        bail!("the program failed ({status}); what it said stands above");
    }
    Ok(seen)
}
