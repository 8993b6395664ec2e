//! `host model import` and `host doctor --model`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::models::write_model;
use crate::common::{Desk, Outcome, json as read_json};

/// A GGUF file that the package gguf wrote.
fn golden(desk: &Desk, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/gguf").join(name);
    fs::copy(path, desk.path("model.gguf")).expect("copied");
}

/// Checks of `host doctor --model --json` with their grades and texts.
fn findings(desk: &Desk, folder: &str) -> (Option<i32>, Vec<(String, String, String)>) {
    let Outcome { code, results, .. } = desk.host(&["doctor", "--model", folder, "--json"]);
    let parsed: Value = serde_json::from_str(&results).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = parsed.as_array().expect("a list").iter();
    let all = findings.map(|one| {
        assert!(one["status"] == "ok" || one["hint"].is_string(), "no hint: {one}");
        (text(&one["check"]), text(&one["status"]), text(&one["text"]))
    });
    (code, all.collect())
}

/// The text of the only check of this name and grade.
fn text_of(findings: &[(String, String, String)], check: &str, grade: &str) -> String {
    let mut found = findings.iter().filter(|(name, status, _)| name == check && status == grade);
    match (found.next(), found.next()) {
        (Some((.., text)), None) => text.clone(),
        _ => panic!("not one `{check}` of grade {grade}: {findings:?}"),
    }
}

#[test]
fn an_imported_model_is_one_that_the_host_loads() {
    let desk = Desk::new();
    golden(&desk, "llama.gguf");
    let outcome = desk.host(&["model", "import", "model.gguf", "--out", "models/llama"]);
    assert_eq!(outcome.succeeded(), "wrote `models/llama`\n");
    let config = read_json(&desk.path("models/llama/config.json"));
    assert_eq!((&config["model_type"], &config["hidden_size"]), (&json!("llama"), &json!(64)));
    let reply = desk.host(&["generate", "models/llama", "--raw", "abc", "--max-tokens", "3", "--json"]).succeeded();
    let reply: Value = serde_json::from_str(&reply).expect("JSON");
    assert!(reply["tokens"].as_array().is_some_and(|tokens| !tokens.is_empty()), "{reply}");
    let taken = desk.host(&["model", "import", "model.gguf", "--out", "models/llama"]).mistake("a folder that exists");
    assert!(taken.contains("cannot write `models/llama`: the folder exists\nhint: "), "{taken}");
}

#[test]
fn a_file_that_cannot_be_imported_leaves_no_folder() {
    let desk = Desk::new();
    golden(&desk, "qwen2.gguf");
    let whole = fs::read(desk.path("model.gguf")).expect("read");
    let import = |title: &str| {
        let message = desk.host(&["model", "import", "model.gguf", "--out", "new"]).mistake(title);
        assert!(message.contains("\nhint: ") && !desk.path("new").exists(), "{message}");
        let names = fs::read_dir(desk.path("")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("partial")), "{title}");
        message
    };
    desk.write("model.gguf", &whole[..whole.len() / 2]);
    assert!(import("truncated").contains("cannot import `model.gguf`: the file ends within tensor"));
    desk.write("model.gguf", b"safetensors");
    assert!(import("another format").contains("cannot import `model.gguf`: it is not a GGUF file"));
    // The layer's number is not one of the model.
    let mut wrong = whole.clone();
    let place = whole.windows(16).position(|bytes| bytes == b"blk.0.ffn_up.wei").expect("a name");
    wrong[place + 4] = b'7';
    desk.write("model.gguf", &wrong);
    assert!(import("a wrong layer").contains("num_hidden_layers = 1 in config.json, but the weights have 8 layers"));
    fs::remove_file(desk.path("model.gguf")).expect("removed");
    assert!(import("missing").contains("cannot read `model.gguf`"));
}

#[test]
fn the_doctor_describes_a_sound_model() {
    let desk = Desk::new();
    write_model(1, &desk.path("model"));
    let (code, found) = findings(&desk, "model");
    assert_eq!(code, Some(0), "{found:?}");
    let model = text_of(&found, "model", "ok");
    assert!(model.starts_with("qwen2: 1 layer of width 16, 2 heads (1 of keys and values) of width 8"), "{model}");
    assert!(text_of(&found, "weights", "ok").starts_with("F32, 1 file, "));
    assert_eq!(text_of(&found, "tokens", "ok"), "263 tokens, 264 rows in the embedding");
    let chat = text_of(&found, "chat", "ok");
    assert!(chat.contains("a reply ends with: `<|im_end|>`"), "{chat}");
    // Without --json, for people.
    let people = desk.host(&["doctor", "--model", "model"]).succeeded();
    assert!(people.starts_with("ok    model     qwen2: "), "{people}");
}

#[test]
fn the_doctor_names_what_is_wrong_with_a_model() {
    let desk = Desk::new();
    write_model(1, &desk.path("model"));
    let damaged = |change: &dyn Fn(&Path), check: &str, grade: &str| {
        let _ = fs::remove_dir_all(desk.path("copy"));
        copy(&desk.path("model"), &desk.path("copy"));
        change(&desk.path("copy"));
        let (code, found) = findings(&desk, "copy");
        assert!(grade != "fail" || code == Some(1), "{found:?}");
        text_of(&found, check, grade)
    };
    let weights = |folder: &Path| folder.join("model.safetensors");
    let without = |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).expect("removed");
    let truncated = |folder: &Path| {
        let bytes = fs::read(weights(folder)).expect("read");
        fs::write(weights(folder), &bytes[..bytes.len() - 4]).expect("written");
    };
    assert!(damaged(&truncated, "weights", "fail").contains("is not a complete safetensors file"));
    let missing = damaged(&without("model.safetensors"), "weights", "fail");
    assert!(missing.contains("neither `model.safetensors` nor `model.safetensors.index.json` is there"), "{missing}");
    assert!(damaged(&without("tokenizer.json"), "tokens", "fail").contains("`tokenizer.json` is missing"));
    assert!(damaged(&without("chat_template.jinja"), "chat", "fail").contains("the model has no chat template"));
    let sharded = |folder: &Path| {
        fs::rename(weights(folder), folder.join("a.safetensors")).expect("renamed");
        let map = json!({ "weight_map": { "model.norm.weight": "a.safetensors", "lm_head.weight": "b.safetensors" } });
        fs::write(folder.join("model.safetensors.index.json"), map.to_string()).expect("written");
    };
    assert!(damaged(&sharded, "weights", "fail").contains("`b.safetensors`, which it names, is missing"));
    let misnamed = |folder: &Path| {
        sharded(folder);
        let map = json!({ "weight_map": { "model.norm.weight": "a.safetensors" } });
        fs::write(folder.join("model.safetensors.index.json"), map.to_string()).expect("written");
    };
    assert!(damaged(&misnamed, "weights", "fail").contains("is in `a.safetensors`, but the index does not list it"));
    let other_family = |folder: &Path| set(&folder.join("config.json"), "model_type", json!("mamba"));
    assert!(damaged(&other_family, "model", "fail").contains("model_type = \"mamba\""));
    let quantised = |folder: &Path| set(&folder.join("config.json"), "quantization_config", json!({ "bits": 4 }));
    assert!(damaged(&quantised, "model", "fail").contains("quantization_config"));
    let larger = |folder: &Path| {
        let mut tokenizer = read_json(&folder.join("tokenizer.json"));
        tokenizer["added_tokens"][0]["id"] = json!(300);
        fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("written");
    };
    assert!(damaged(&larger, "tokens", "warn").contains("301 tokens, 264 rows in the embedding"));
    let adapter = |folder: &Path| {
        fs::remove_file(folder.join("config.json")).expect("removed");
        fs::write(folder.join("adapter_config.json"), "{}").expect("written");
    };
    assert!(damaged(&adapter, "model", "fail").contains("holds an adapter without its base model"));
    let (code, found) = findings(&desk, "nowhere");
    assert_eq!((code, text_of(&found, "model", "fail")), (Some(1), "`nowhere` is not a folder".to_owned()));
}

/// Copies the files of a plain model.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        fs::copy(from.join(name), to.join(name)).expect("copied");
    }
}

fn set(path: &Path, key: &str, value: Value) {
    let mut config = read_json(path);
    config[key] = value;
    fs::write(path, config.to_string()).expect("written");
}
