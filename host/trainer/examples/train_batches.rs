//! Trains a model on batches from a file, for comparison with other trainers.
//!
//! Usage: `train_batches MODEL BATCHES.json OUT`. Prints the metrics of each step as a line of JSON, and writes a
//! checkpoint before all steps to `OUT/before` and the model after step N to `OUT/step-N`.
//! `tests/reference/train_beside.py` writes the batches and trains on them with transformers.

use std::path::PathBuf;

use gymkhana_record::{EpisodeRecord, Segment};
use gymkhana_trainer::{Lora, RlSettings, SftSettings, Trainer, TrainerSettings};
use serde::Deserialize;

/// Trained parameters and batches.
#[derive(Deserialize)]
struct Batches {
    lora: Option<Lora>,
    threads: usize,
    steps: Vec<Step>,
}

/// One step.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    Sft { settings: SftSettings, demonstrations: Vec<Segment> },
    Rl { settings: Box<RlSettings>, groups: Vec<Vec<EpisodeRecord>> },
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "results go to standard output")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, batches, out] = &paths[..] else {
        return Err("train_batches MODEL BATCHES.json OUT".into());
    };
    let Batches { lora, threads, steps } = serde_json::from_slice(&std::fs::read(batches)?)?;
    let trainer = Trainer::open(model, &TrainerSettings { lora, threads, ..TrainerSettings::default() })?;
    trainer.save(&out.join("before"), &serde_json::Value::Null).await?;
    for (number, step) in steps.into_iter().enumerate() {
        let measured = match step {
            Step::Sft { settings, demonstrations } => trainer.sft_step(&demonstrations, &settings).await?,
            Step::Rl { settings, groups } => trainer.rl_step(&groups, &settings).await?,
        };
        let values: serde_json::Map<String, serde_json::Value> =
            measured.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        println!("{}", serde_json::Value::Object(values));
        trainer.export(&out.join(format!("step-{number}"))).await?;
    }
    Ok(())
}
