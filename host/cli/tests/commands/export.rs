//! `host export`: a copy with an output layer of its own, which generates what the original generates.

use crate::common::models::write_model;
use crate::common::{Desk, files_below, json};
use serde_json::Value;

#[test]
fn a_copy_stores_the_output_layer_separately_and_says_the_same() {
    let desk = Desk::new();
    write_model(1, &desk.path("model"));
    assert_eq!(desk.host(&["export", "model", "copies/untied"]).succeeded(), "wrote `copies/untied`\n");
    let copy = desk.path("copies/untied");
    assert_eq!(json(&desk.path("model/config.json"))["tie_word_embeddings"], true, "the original stays tied");
    assert_eq!(json(&copy.join("config.json"))["tie_word_embeddings"], false);
    let weights = std::fs::read(copy.join("model.safetensors")).expect("weights");
    assert!(String::from_utf8_lossy(&weights).contains("\"lm_head.weight\""));
    let names: Vec<String> = files_below(&copy).into_iter().map(|(name, _)| name).collect();
    assert!(!names.iter().any(|name| name.starts_with("trainer") || name == "SHA256SUMS"), "{names:?}");
    let reply = |model: &str| {
        let arguments = ["generate", model, "Hello", "--max-tokens", "24", "--seed", "1", "--json"];
        let reply: Value = serde_json::from_str(&desk.host(&arguments).succeeded()).expect("JSON");
        let log_probs =
            reply["log_probs"].as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number"));
        (reply["tokens"].clone(), log_probs.collect::<Vec<_>>())
    };
    let ((expected, log_probs), (found, found_log_probs)) = (reply("model"), reply("copies/untied"));
    assert_eq!(found, expected);
    assert!(log_probs.iter().zip(&found_log_probs).all(|(one, other)| (one - other).abs() < 1e-5));
    let taken = desk.host(&["export", "model", "copies/untied"]).mistake("a folder that exists");
    assert!(taken.contains("copies/untied"), "{taken}");
}
