//! The trainer beside other trainers on their toy: `bench trainer --baselines DIR`.
//!
//! Their programs stay as they are and run in a Python of their own; each side runs in turn, several times, on one thread,
//! and CPU seconds of a step are compared, which shared cores disturb less than time on the clock.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::peers::ensure_python;
use crate::setup::{self, run_cargo};
use crate::step::step;
use crate::workspace::Workspace;

/// What their programs need, as their README says.
const REQUIREMENTS: &str = "torch==2.11.0\ntransformers==5.23.0\ntrl==1.16.0\ndatasets\npsutil\n";

/// Rounds, in each of which every side runs once.
const ROUNDS: usize = 3;
const STEPS: &str = "6";
const EXAMPLE: &str = "bench_trainer";

/// What ours runs with. All theirs computes in float32; a CPU that multiplies bfloat16 in hardware has more to give.
const MODES: [&str; 5] = ["every", "packed", "packed bfloat16", "frugal", "frugal bfloat16"];

/// Which figure compares what: its key, our mode, and their program.
const FIGURES: [(&str, &str, &str); 6] = [
    ("step-vs-pytorch", "every", "plain"),
    ("step-vs-trl", "every", "trl"),
    ("packed-float32-vs-trl", "packed", "trl"),
    ("packed-vs-trl", "packed bfloat16", "trl"),
    ("frugal-float32-vs-trl", "frugal", "trl"),
    ("frugal-vs-trl", "frugal bfloat16", "trl"),
];

/// Sets up, runs both sides in turn and prints the figures.
pub fn run(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    setup::run(workspace)?;
    let python = step("baselines' Python", || ensure_python(&workspace.root, "baselines", REQUIREMENTS))?;
    let folder = folder.canonicalize().with_context(|| format!("`{}` is no folder of baselines", folder.display()))?;
    step("bench trainer", || {
        run_cargo(workspace, &["build", "--release", "--workspace", "--exclude", "xtask", "--example", EXAMPLE])?;
        let ours = workspace.target.join("release").join("examples").join(EXAMPLE);
        let mut costs: Vec<(&str, Vec<f64>)> = Vec::new();
        for _ in 0..ROUNDS {
            for mode in MODES {
                let mut words: Vec<&str> = mode.split(' ').collect();
                words.insert(1, STEPS);
                add(&mut costs, mode, cost(Command::new(&ours).args(words).current_dir(&workspace.root))?);
            }
            for (name, program, more) in
                [("plain", "plain_grpo.py", &["--loop", "own"][..]), ("trl", "trl_grpo.py", &[][..])]
            {
                add(&mut costs, name, theirs(&python, &folder.join(program), more, &workspace.target)?);
            }
        }
        for (key, mode, versus) in FIGURES {
            print(key, median(&costs, mode), versus, median(&costs, versus));
        }
        Ok(())
    })
}

fn add<'a>(costs: &mut Vec<(&'a str, Vec<f64>)>, name: &'a str, cost: f64) {
    match costs.iter_mut().find(|(known, _)| *known == name) {
        Some((_, found)) => found.push(cost),
        None => costs.push((name, vec![cost])),
    }
}

fn theirs(python: &Path, program: &Path, more: &[&str], target: &Path) -> anyhow::Result<f64> {
    let scratch: PathBuf = target.join("tmp");
    std::fs::create_dir_all(&scratch)?;
    let mut command = Command::new(python);
    // Nothing is written beside their programs, and TRL's folder falls where it does no harm.
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(scratch);
    cost(command.arg(program).args(["--threads", "1", "--groups", "8", "--gen", "8", "--steps", STEPS]).args(more))
}

/// The CPU seconds of a step in the last line that a program prints.
fn cost(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    let line: Value = serde_json::from_str(last).with_context(|| format!("{command:?} printed no line of JSON"))?;
    line["cpu_s_per_step"].as_f64().with_context(|| format!("{command:?} says nothing of `cpu_s_per_step`"))
}

fn median(costs: &[(&str, Vec<f64>)], name: &str) -> f64 {
    let mut found: Vec<f64> =
        costs.iter().filter(|(known, _)| *known == name).flat_map(|(_, found)| found.iter().copied()).collect();
    found.sort_by(f64::total_cmp);
    found.get(found.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print(key: &str, value: f64, versus: &str, versus_value: f64) {
    let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
    let line = json!({
        "bench": key, "value": rounded(value), "unit": "CPU s a step", "versus": versus,
        "versus_value": rounded(versus_value), "ratio": rounded(value / versus_value),
    });
    #[allow(clippy::print_stdout, reason = "results go to standard output")]
    {
        println!("{line}");
    }
}
