//! Prints one JSON line for each figure of generation or training: `bench_torch [generate|train]`, both without a word.

use super::{generation_rate, training_rate};
use gymkhana_trainer::{TinyModel, TrainerError};

const CONVERSATIONS: usize = 64;

fn line(bench: &str, value: f64, versus: &str, versus_value: f64) {
    let line = serde_json::json!({
        "bench": bench, "value": value.round(), "unit": "tokens/s", "versus": versus,
        "versus_value": versus_value.round(), "ratio": (value / versus_value * 100.0).round() / 100.0,
    });
    #[allow(clippy::print_stdout, reason = "results go to standard output")]
    {
        println!("{line}");
    }
}

async fn generate(tiny: &TinyModel) -> Result<(), TrainerError> {
    for threads in [1, 2] {
        let alone = generation_rate(tiny, threads, 8, false).await?;
        let together = generation_rate(tiny, threads, CONVERSATIONS * 4, true).await?;
        line(
            &format!("generate, {CONVERSATIONS} max_concurrent_sequences, {threads} thread(s)"),
            together,
            "one at a time",
            alone,
        );
    }
    Ok(())
}

async fn train(tiny: &TinyModel) -> Result<(), TrainerError> {
    let micro_batch_tokens = gymkhana_trainer::SftSettings::default().micro_batch_tokens;
    let one = training_rate(tiny, 1, CONVERSATIONS, micro_batch_tokens, 5).await?;
    line("train, 1 thread", one, "1 thread", one);
    let two = training_rate(tiny, 2, CONVERSATIONS, micro_batch_tokens, 5).await?;
    line("train, 2 threads", two, "1 thread", one);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tiny = TinyModel::default();
    match std::env::args().nth(1).as_deref() {
        None => {
            generate(&tiny).await?;
            train(&tiny).await?;
        }
        Some("generate") => generate(&tiny).await?,
        Some("train") => train(&tiny).await?,
        Some(other) => return Err(format!("there is no bench `{other}`; there are generate and train").into()),
    }
    Ok(())
}
