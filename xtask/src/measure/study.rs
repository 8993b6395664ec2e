//! Studies: trains tiny models with a mechanism and without it, prints one JSON line per step and plots them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{StudyName, build_program, name};
use crate::reference;
use crate::setup;
use crate::step::{execute, step};
use crate::workspace::Workspace;

/// The study that needs the `openai` client.
const AGENT_PROGRAM: &str = "agent-program";
/// The bin target of the studies.
const PROGRAM: &str = "gymkhana-studies";

/// Sets up and runs one study, or all with `smoke`.
pub fn run(workspace: &Workspace, study: Option<StudyName>, seeds: u32, smoke: bool) -> anyhow::Result<()> {
    setup::run(workspace)?;
    match study {
        Some(study) if !smoke => run_whole(workspace, study, seeds),
        _ => run_smoke(workspace, study),
    }
}

/// Trains a few steps of a study or of all; neither keeps nor plots the results.
pub fn run_smoke(workspace: &Workspace, study: Option<StudyName>) -> anyhow::Result<()> {
    step("studies: a few steps", || {
        let program = build_program(workspace, PROGRAM)?;
        execute(Command::new(program).args(study.iter().map(name)).arg("--smoke").current_dir(&workspace.root))
    })
}

/// Prints the lines, keeps them in `target/studies/NAME.jsonl` and draws `studies/plots/NAME.svg`.
fn run_whole(workspace: &Workspace, study: StudyName, seeds: u32) -> anyhow::Result<()> {
    let study = name(&study);
    step(&format!("study {study}"), || {
        let program = build_program(workspace, PROGRAM)?;
        let mut command = Command::new(program);
        command.args([&study, "--seeds", &seeds.to_string()]).current_dir(&workspace.root);
        if study == AGENT_PROGRAM {
            command.env("GYMKHANA_CLIENTS_PYTHON", reference::clients_python(workspace)?);
        }
        let lines = run_visibly(&mut command).with_context(|| format!("study `{study}`"))?;
        let kept = workspace.target.join("studies").join(format!("{study}.jsonl"));
        write(&kept, &lines)?;
        let studies = workspace.root.join("studies");
        let plot = studies.join("plots").join(format!("{study}.svg"));
        execute(Command::new("python3").arg(studies.join("plot_study.py")).args([plot, kept]))
    })
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .with_context(|| format!("cannot create the folder of `{}`", path.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Runs a program, prints each line as it comes, and returns them all.
#[allow(clippy::print_stdout, reason = "the lines are this command's result")]
fn run_visibly(command: &mut Command) -> anyhow::Result<String> {
    let mut program = command.stdout(Stdio::piped()).spawn().context("the program does not start")?;
    let output = program.stdout.take().context("the program has no standard output")?;
    let mut seen = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read the program's output")?;
        println!("{line}");
        seen.push_str(&line);
        seen.push('\n');
    }
    let status = program.wait().context("cannot wait for the program")?;
    if !status.success() {
        bail!("the program failed ({status}); see its output above");
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_study_has_its_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for study in StudyName::value_variants() {
            let page = root.join("studies").join(format!("{}.md", name(study)));
            assert!(page.exists(), "no page `{}`", page.display());
        }
    }
}
