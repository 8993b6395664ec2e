//! A run of supervised and RL steps whose policy a real server generates.

use serde_json::Value;

use crate::common::{Desk, TIC_TAC_TOE};
use crate::server::{Vllm, tied};

/// A run of a game whose rewards vary; the model first learns that a move is a digit.
const GAME: &str = r#"
seed = 1
success = "environment.success"
limits = { turns = 8, reply_tokens = 2 }
evaluation = { tasks = 2 }
environment = { options = { opening = 4 } }
failures = { outage_seconds = 1 }

[policy]
checkpoint = "model"
max_concurrent_sequences = 8
max_behaviour_divergence = 0.01
server = { url = "URL", protocol = "vllm", name = "tiny", retries = 1, max_divergence = 0.001 }

[[stages]]
kind = "sft"
steps = 12
batch = 4
optimizer = { learning_rate = 1e-2 }

[[stages]]
kind = "rl"
steps = 4
groups = 4
group_size = 4
optimizer = { learning_rate = 1e-3 }
"#;

/// A desk with a tied model in `model`, its copy for the server in `served`, and the run file of the game.
pub async fn desk() -> Desk {
    let desk = Desk::new();
    let model = tied(2);
    model.save(&desk.path("model"), &Value::Null).await.expect("written");
    model.export(&desk.path("served")).await.expect("written");
    desk
}

/// Writes the run file for a server.
pub fn write_run_file(desk: &Desk, vllm: &Vllm) {
    desk.write("run.toml", GAME.replace("URL", &vllm.url()));
}

/// Values of a metric in a run, by step.
fn metric(desk: &Desk, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| line["values"][name].as_f64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn a_run_learns_from_the_tokens_of_a_server_and_replays() {
    let desk = desk().await;
    let vllm = Vllm::start(&desk.path("served"), &desk.path("log"));
    write_run_file(&desk, &vllm);
    desk.run(TIC_TAC_TOE, &[]).succeeded();
    let divergence = metric(&desk, "on_policy_divergence");
    println!("on-policy divergence by step: {divergence:?}");
    assert_eq!(divergence.len(), 4, "one value for each RL step");
    assert!(divergence.iter().all(|value| value.abs() < 1e-3), "{divergence:?}");
    // The weights at the start, those after the supervised stage, and those after each RL step.
    assert_eq!(vllm.requests("/collective_rpc"), 1 + 1 + 4);
    drop(vllm);
    desk.host(&["replay", "out"]).succeeded();
}
