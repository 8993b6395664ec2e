//! Trains a tiny model on FrozenLake: `cargo run --release -p gymkhana-run --example train -- OUT` after the set-up.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program prints its progress")]

use std::error::Error;
use std::sync::Arc;

use gymkhana_config::RunFile;
use gymkhana_run::{Progress, ProgressFigures, Reporter, RunRequest, StageSummary, Work, describe, prepare};

/// Imitation of the environment's oracle, then reinforcement learning with GRPO.
const RUN: &str = r#"
success = "environment.success"
evaluation = { tasks = 40 }
limits = { turns = 12, reply_tokens = 32 }
policy = { max_concurrent_sequences = 32, tiny = { layers = 1, width = 48, heads = 2, kv_heads = 1, mlp = 96 } }

[[stages]]
kind = "sft"
steps = 30
batch = 16

[[stages]]
kind = "rl"
algorithm = "grpo"
steps = 4
groups = 4
group_size = 4
"#;

struct Lines;

impl Reporter for Lines {
    fn status(&self, text: &str) {
        eprintln!("{text}");
    }

    fn stage_finished(&self, stage: &StageSummary) {
        println!("{}", describe(stage));
    }

    fn progress(&self, work: Work) -> Box<dyn Progress> {
        Box::new(Steps(work))
    }
}

struct Steps(Work);

impl Progress for Steps {
    fn at(&self, done: u64, figures: &ProgressFigures) {
        eprintln!("{} {done}/{}: {}", self.0.name, self.0.length, figures.others.join(", "));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args().nth(1).ok_or("usage: train OUT")?;
    let request = RunRequest::new(RunFile::parse(RUN, "train.rs", &[])?, out, &["target/plugins/frozen-lake.wasm"])?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async { prepare(request, Arc::new(Lines)).await?.train().await })?;
    Ok(())
}
