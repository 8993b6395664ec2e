//! Every tensor, beside the values that the package gguf dequantises.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gymkhana_gguf::GgufModel;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/gguf").join(name)
}

#[test]
fn tensors_are_those_of_the_package_gguf() {
    type Expected = BTreeMap<String, BTreeMap<String, (Vec<usize>, String)>>;
    let golden: Expected = serde_json::from_str(&std::fs::read_to_string(path("golden.json")).unwrap()).unwrap();
    for (name, expected) in golden {
        let mut model = GgufModel::open(&path(&format!("{name}.gguf"))).unwrap();
        let shapes: Vec<(String, Vec<usize>)> =
            model.tensors().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
        let mut found = BTreeMap::new();
        for (tensor, shape) in shapes {
            let bytes: Vec<u8> = model.values(&tensor).unwrap().into_iter().flat_map(f32::to_le_bytes).collect();
            let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            found.insert(tensor, (shape, digest));
        }
        assert!(found.len() > 10, "{name}");
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn settings_are_written_for_transformers() {
    let config = |name: &str| Value::Object(GgufModel::open(&path(name)).unwrap().config().clone());
    let llama = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "tie_word_embeddings": false, "vocab_size": 8,
        "attention_bias": false, "rope_theta": 10_000.0, "bos_token_id": 1, "eos_token_id": 2,
    });
    assert_eq!(config("llama.gguf"), llama);
    let qwen2 = config("qwen2.gguf");
    assert_eq!(qwen2["architectures"], json!(["Qwen2ForCausalLM"]));
    assert_eq!((&qwen2["tie_word_embeddings"], &qwen2["attention_bias"]), (&json!(true), &Value::Null));
    assert_eq!(config("qwen3.gguf")["attention_bias"], json!(false));
}

#[test]
fn the_tokenizer_has_tokens_merges_and_the_template() {
    let model = GgufModel::open(&path("llama.gguf")).unwrap();
    let file = |wanted: &str| -> Value {
        let (_, text) = model.files().iter().find(|(name, _)| *name == wanted).unwrap();
        serde_json::from_str(text).unwrap()
    };
    let tokenizer = file("tokenizer.json");
    assert_eq!(
        tokenizer["model"]["vocab"],
        json!({
            "<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "c": 5, "ab": 6, "abc": 7,
        })
    );
    assert_eq!(tokenizer["model"]["merges"], json!([["a", "b"], ["ab", "c"]]));
    let added: Vec<(&Value, &Value)> =
        tokenizer["added_tokens"].as_array().unwrap().iter().map(|token| (&token["id"], &token["content"])).collect();
    let expected = [(json!(0), json!("<unk>")), (json!(1), json!("<s>")), (json!(2), json!("</s>"))];
    assert_eq!(added, expected.iter().map(|(id, text)| (id, text)).collect::<Vec<_>>());
    assert_eq!(tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
    let config = file("tokenizer_config.json");
    assert_eq!(config["chat_template"], "{{ messages[0].content }}");
    assert_eq!((&config["bos_token"], &config["eos_token"]), (&json!("<s>"), &json!("</s>")));
    assert_eq!(file("generation_config.json"), json!({ "bos_token_id": 1, "eos_token_id": 2 }));
}
