//! Comparison with other trainers on their toy: `bench trainer --baselines DIR`.
//!
//! Both sides run in turn, several times, on one thread. The compared number is the CPU time of a step, which shared
//! cores disturb less than wall-clock time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::{BENCHES, build_program};
use crate::setup;
use crate::step::{UserError, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Requirements of their programs, from their README.
const REQUIREMENTS: &str = include_str!("../../requirements/baselines.txt");

/// Rounds; each side runs once in each.
const ROUNDS: usize = 3;
const STEPS: &str = "6";

/// Our modes. The other programs compute in float32; some CPUs multiply bfloat16 in hardware.
const MODES: [&str; 5] = ["every", "packed", "packed bfloat16", "frugal", "frugal bfloat16"];

/// Comparisons: name, our mode, their program.
const FIGURES: [(&str, &str, &str); 6] = [
    ("step-vs-pytorch", "every", "plain"),
    ("step-vs-trl", "every", "trl"),
    ("packed-float32-vs-trl", "packed", "trl"),
    ("packed-vs-trl", "packed bfloat16", "trl"),
    ("frugal-float32-vs-trl", "frugal", "trl"),
    ("frugal-vs-trl", "frugal bfloat16", "trl"),
];

/// Sets up, runs both sides in turn and prints the comparisons.
pub fn run(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    let folder = folder.canonicalize().map_err(|error| {
        UserError(format!(
            "cannot read the baselines in `{}`: {error}\nhint: pass the folder of `plain_grpo.py` and `trl_grpo.py`",
            folder.display()
        ))
    })?;
    setup::run(workspace)?;
    let python = step("baselines' Python", || ensure_python(&workspace.root, "baselines", REQUIREMENTS))?;
    step("bench trainer", || {
        let ours = build_program(workspace, BENCHES)?;
        let mut costs: Vec<(&str, Vec<f64>)> = Vec::new();
        for _ in 0..ROUNDS {
            for mode in MODES {
                let mut command = Command::new(&ours);
                let (positions, precision) = mode.split_once(' ').unwrap_or((mode, ""));
                command.args(["trainer-step", positions, STEPS]).current_dir(&workspace.root);
                if precision == "bfloat16" {
                    command.arg("--bfloat16");
                }
                add(&mut costs, mode, cost(&mut command)?);
            }
            for (name, program, more) in
                [("plain", "plain_grpo.py", &["--loop", "own"][..]), ("trl", "trl_grpo.py", &[][..])]
            {
                add(&mut costs, name, other_cost(&python, &folder.join(program), more, &workspace.target)?);
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

fn other_cost(python: &Path, program: &Path, more: &[&str], target: &Path) -> anyhow::Result<f64> {
    let scratch: PathBuf = target.join("tmp");
    std::fs::create_dir_all(&scratch)?;
    let mut command = Command::new(python);
    // Keeps their folder clean: no bytecode there, and TRL's output goes to the scratch folder.
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(scratch);
    cost(command.arg(program).args(["--threads", "1", "--groups", "8", "--gen", "8", "--steps", STEPS]).args(more))
}

/// CPU seconds of a step, from the last JSON line that a program prints.
fn cost(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    let line: Value = serde_json::from_str(last).with_context(|| format!("{command:?} printed no JSON"))?;
    line["cpu_s_per_step"].as_f64().with_context(|| format!("{command:?} printed no `cpu_s_per_step`"))
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
