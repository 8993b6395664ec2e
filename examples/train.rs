//! Trains a tiny model on FrozenLake: `cargo run --release -p gymkhana --example train -- OUT` after the set-up.
#![allow(clippy::print_stderr, reason = "the program prints its progress")]

use std::error::Error;

use gymkhana::{Run, RunFile, StageBuilder, TinyModel};

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args().nth(1).ok_or("usage: train OUT")?;
    let file = RunFile::builder()
        .plugin("frozen-lake", "target/plugins/frozen-lake.wasm")
        .tiny(&TinyModel { layers: 1, width: 48, heads: 2, kv_heads: 1, mlp: 96, ..TinyModel::default() })
        .set("policy.max_concurrent_sequences", 32)
        .set("limits.turns", 12)
        .set("limits.reply_tokens", 32)
        .set("evaluation.tasks", 40)
        // Imitation of the environment's oracle, then reinforcement learning with GRPO.
        .stage(StageBuilder::sft().steps(30).batch(16))
        .stage(StageBuilder::rl("grpo").steps(4).groups(4).group_size(4))
        .build()?;
    let run = Run::new(file).on_event(|event| eprintln!("{event}"));
    tokio::runtime::Runtime::new()?.block_on(run.train(out))?;
    Ok(())
}
