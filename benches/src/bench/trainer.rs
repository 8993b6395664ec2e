//! Training on the toy of the baselines: CPU seconds of a step, and the learning curve.
//!
//! `cargo xtask bench trainer --baselines DIR` compares this with programs of other trainers.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::median;
use gymkhana_benches::trainer::toy;
use gymkhana_record::{Seed, StepMetrics};
use gymkhana_trainer::{Precision, RlSettings};
use serde_json::{Value, json};

/// Positions that a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Every position of every episode
    Every,
    /// Common prefixes once
    Packed,
    /// Common prefixes once, without episodes of zero advantage
    Frugal,
}

/// Arguments of the CPU-time measurement.
#[derive(Debug, Args)]
pub struct StepCost {
    /// Positions to compute
    mode: Mode,
    /// Training steps
    steps: u32,
    /// Compute passes in bfloat16
    #[arg(long)]
    bfloat16: bool,
}

impl StepCost {
    /// A step without superfluous positions, in float32.
    pub fn frugal(effort: Effort) -> Self {
        Self { mode: Mode::Frugal, steps: effort.pick(6, 2), bfloat16: false }
    }
}

/// Arguments of the learning curve.
#[derive(Debug, Args)]
pub struct Curve {
    /// Training steps
    steps: u32,
    /// Seed of the model and the episodes
    seed: u64,
    /// TOML file of training settings
    settings: Option<PathBuf>,
    /// Compute passes in bfloat16
    #[arg(long)]
    bfloat16: bool,
}

/// Prints the CPU seconds of a training step.
pub fn step_cost(arguments: &StepCost) -> Result<()> {
    let (share_beginnings, skip_idle) = match arguments.mode {
        Mode::Every => (false, false),
        Mode::Packed => (true, false),
        Mode::Frugal => (true, true),
    };
    let settings = RlSettings { share_beginnings, skip_idle, ..toy::settings() };
    let costs = train(&settings, precision(arguments.bfloat16), Seed(0), arguments.steps, |_, _, _| ())?;
    let mode = arguments.mode.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    print(&costs.line(&mode, arguments.steps));
    Ok(())
}

/// Prints the mean reward and the entropy of each training step, then the CPU seconds of a step.
pub fn curve(arguments: &Curve) -> Result<()> {
    let settings = match &arguments.settings {
        Some(file) => toml::from_str(&std::fs::read_to_string(file)?)?,
        None => RlSettings { share_beginnings: true, skip_idle: true, ..toy::settings() },
    };
    let show = |step, reward, metrics: &StepMetrics| {
        print(&json!({ "step": step, "reward": reward, "entropy": metrics.get("entropy") }));
    };
    let costs = train(&settings, precision(arguments.bfloat16), Seed(arguments.seed), arguments.steps, show)?;
    print(&costs.line("curve", arguments.steps));
    Ok(())
}

fn precision(bfloat16: bool) -> Precision {
    if bfloat16 { Precision::Bfloat16 } else { Precision::Float32 }
}

/// CPU seconds and positions of each step.
#[derive(Default)]
struct Costs {
    play: Vec<f64>,
    learn: Vec<f64>,
    positions: Vec<f64>,
}

impl Costs {
    fn line(self, mode: &str, steps: u32) -> Value {
        // The first step warms up.
        let whole = self.play.iter().zip(&self.learn).skip(1).map(|(play, learn)| play + learn).collect();
        json!({
            "program": "gymkhana", "mode": mode, "steps": steps, "cpu_s_per_step": median(whole),
            "cpu_s_play": median(self.play), "cpu_s_learn": median(self.learn), "positions": median(self.positions),
        })
    }
}

fn train(
    settings: &RlSettings,
    precision: Precision,
    seed: Seed,
    steps: u32,
    mut show: impl FnMut(u32, f64, &StepMetrics),
) -> Result<Costs> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let trainer = toy::trainer(seed, precision)?;
        let mut costs = Costs::default();
        for step in 0..steps {
            let start = cpu_seconds()?;
            let (groups, reward) = toy::play(&trainer, step, seed).await?;
            let between = cpu_seconds()?;
            let metrics = trainer.rl_step(&groups, settings).await?;
            costs.play.push(between - start);
            costs.learn.push(cpu_seconds()? - between);
            costs.positions.push(metrics.get("positions").unwrap_or(0.0));
            show(step, reward, &metrics);
        }
        Ok(costs)
    })
}

/// CPU seconds of this process.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let own: f64 = stat.split(' ').next().unwrap_or_default().parse()?;
    let mut sum = own;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        if task.file_name() != std::process::id().to_string().as_str() {
            let stat = std::fs::read_to_string(task.path().join("schedstat"))?;
            sum += stat.split(' ').next().unwrap_or_default().parse::<f64>()?;
        }
    }
    Ok(sum / 1e9)
}

#[allow(clippy::print_stdout, reason = "results go to standard output")]
fn print(line: &Value) {
    println!("{line}");
}
