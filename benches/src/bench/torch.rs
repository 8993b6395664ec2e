//! Tokens per second of generation and training, on one thread and on two.

use anyhow::Result;
use gymkhana_benches::Effort;
use gymkhana_benches::trainer::{generation_rate, group_rate, training_rate};
use gymkhana_trainer::{SftSettings, TinyModel};

const CONVERSATIONS: usize = 64;

/// Tokens per second of generation.
pub fn generate(effort: Effort) -> Result<()> {
    let (tiny, rounds) = (TinyModel::default(), effort.pick(4, 1));
    runtime()?.block_on(async {
        for threads in effort.pick(&[1, 2][..], &[1]) {
            let alone = generation_rate(&tiny, *threads, effort.pick(8, 1), false).await?;
            let together = generation_rate(&tiny, *threads, CONVERSATIONS * rounds, true).await?;
            let name = format!("generate, {CONVERSATIONS} slots, {threads} thread(s)");
            print(&name, together, "one at a time", alone);
        }
        let long = TinyModel { context: 32_768, ..tiny.clone() };
        let rate = |tiny| async move { generation_rate(tiny, 1, CONVERSATIONS * rounds, true).await };
        let name = format!("generate, {CONVERSATIONS} slots, context of {}", long.context);
        print(&name, rate(&long).await?, &format!("context of {}", tiny.context), rate(&tiny).await?);
        let (members, prompt) = (effort.pick(16, 2), effort.pick(4000, 100));
        let large = TinyModel { context: 4096, ..tiny };
        let shared = group_rate(&large, members, prompt, 32, true).await?;
        let apart = group_rate(&large, members, prompt, 32, false).await?;
        print(&format!("generate, {members} of one prompt of {prompt} tokens"), shared, "a prompt for each", apart);
        Ok(())
    })
}

/// Tokens per second of training.
pub fn train(effort: Effort) -> Result<()> {
    let (tiny, steps) = (TinyModel::default(), effort.pick(5, 1));
    let micro_batch_tokens = SftSettings::default().micro_batch_tokens;
    runtime()?.block_on(async {
        let one = training_rate(&tiny, 1, effort.pick(CONVERSATIONS, 2), micro_batch_tokens, steps).await?;
        print("train, 1 thread", one, "1 thread", one);
        let two = training_rate(&tiny, 2, effort.pick(CONVERSATIONS, 2), micro_batch_tokens, steps).await?;
        print("train, 2 threads", two, "1 thread", one);
        Ok(())
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn print(bench: &str, value: f64, versus: &str, versus_value: f64) {
    let line = serde_json::json!({
        "bench": bench, "value": value.round(), "unit": "tokens/s", "versus": versus,
        "versus_value": versus_value.round(), "ratio": (value / versus_value * 100.0).round() / 100.0,
    });
    #[allow(clippy::print_stdout, reason = "results go to standard output")]
    {
        println!("{line}");
    }
}
