use super::*;

fn qwen2() -> Map<String, Value> {
    let value = json!({
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 264,
        "eos_token_id": 258, "rope_theta": 5000.0, "use_sliding_window": false, "rope_scaling": null,
        "of_tomorrow": [1, 2]
    });
    value.as_object().expect("an object").clone()
}

fn read(source: Map<String, Value>) -> Result<ModelConfig, TrainerError> {
    ModelConfig::from_source(source, Path::new("config.json"))
}

#[test]
fn a_written_config_keeps_every_key() {
    let config = read(qwen2()).expect("a plain model");
    assert_eq!((config.head_size(), config.decoder.ropes[0].theta, &config.eos_token_ids[..]), (8, 5000.0, &[258][..]));
    let text = config.to_json();
    let again: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(again["of_tomorrow"], json!([1, 2]));
    assert_eq!(again["rope_parameters"]["rope_theta"], 5000.0);
    assert_eq!(read(again).expect("a written config").decoder.ropes[0].theta, 5000.0);
}

#[test]
fn newer_files_have_the_base_in_rope_parameters() {
    let mut source = qwen2();
    source.remove("rope_theta");
    source.insert("rope_parameters".into(), json!({ "rope_type": "default", "rope_theta": 1e6 }));
    assert_eq!(read(source).expect("a plain model").decoder.ropes[0].theta, 1e6);
}

#[test]
fn scaled_positions_are_written_for_old_and_new_programs() {
    let yarn = json!({ "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16 });
    let mut source = qwen2();
    source.insert("rope_scaling".into(), yarn);
    source.insert("max_position_embeddings".into(), json!(16));
    let config = read(source).expect("a model with scaled positions");
    assert_eq!(config.positions(), 64);
    let again: Map<String, Value> = serde_json::from_str(&config.to_json()).expect("JSON");
    let [old, new] = ["rope_scaling", "rope_parameters"].map(|section| again[section].clone());
    assert_eq!(
        (&old["rope_type"], &new["rope_type"], &new["rope_theta"]),
        (&"yarn".into(), &"yarn".into(), &5000.0.into())
    );
    for without in ["rope_scaling", "rope_parameters"] {
        let mut half = again.clone();
        half.remove(without);
        assert_eq!(read(half).expect("half of it").decoder.ropes, config.decoder.ropes, "{without}");
    }
}

#[test]
fn sizes_beyond_every_published_model_are_refused_by_name() {
    for (key, size) in [
        ("hidden_size", 1_i64 << 40),
        ("intermediate_size", i64::MAX),
        ("num_hidden_layers", 10_000_000),
        ("num_attention_heads", 1_000_000),
        ("num_key_value_heads", 1_000_000),
        ("head_dim", 1 << 20),
        ("vocab_size", 1 << 40),
        ("max_position_embeddings", 1 << 40),
    ] {
        let mut source = qwen2();
        source.insert(key.into(), json!(size));
        let message = read(source).expect_err(key).to_string();
        assert!(message.contains(&format!("{key} = {size}")), "{message}");
    }
    let mut source = qwen2();
    source.insert("rope_scaling".into(), json!({ "type": "yarn", "factor": 1e300 }));
    assert!(read(source).expect_err("too many positions").to_string().contains("rope_scaling"));
    // The sizes of Llama 3.1 405B, the vocabulary of Gemma, and a million positions.
    let mut large = qwen2();
    for (key, size) in [
        ("hidden_size", 16_384),
        ("intermediate_size", 53_248),
        ("num_hidden_layers", 126),
        ("num_attention_heads", 128),
        ("num_key_value_heads", 8),
        ("vocab_size", 262_144),
        ("max_position_embeddings", 1_010_000),
    ] {
        large.insert(key.into(), json!(size));
    }
    assert_eq!(read(large).expect("a large model").num_hidden_layers, 126);
}

#[test]
fn unsupported_computations_are_refused_by_name() {
    for (key, value) in [
        ("model_type", json!("gpt_oss")),
        ("model_type", json!("of_tomorrow")),
        ("architectures", json!(["Qwen2ForSequenceClassification"])),
        ("rope_scaling", json!({ "type": "longrope", "factor": 4.0 })),
        ("rope_scaling", json!({ "type": "linear" })),
        ("rope_parameters", json!({ "rope_type": "llama3", "factor": 8.0 })),
        ("rope_parameters", json!({ "rope_type": "default", "mrope_section": [1, 1, 2] })),
        ("partial_rotary_factor", json!(0.5)),
        ("quantization_config", json!({ "quant_method": "fp8" })),
        ("use_sliding_window", json!("yes")),
        ("attn_logit_softcapping", json!(50.0)),
        ("final_logit_softcapping", json!(30.0)),
        ("residual_multiplier", json!(0.2)),
        ("no_rope_layers", json!([1, 0])),
        ("num_experts", json!(8)),
        ("hidden_act", json!("gelu")),
        ("layer_types", json!(["full_attention", "sliding_attention"])),
    ] {
        let mut source = qwen2();
        source.insert(key.into(), value);
        let message = read(source).expect_err(key).to_string();
        assert!(message.contains(key), "{message}");
    }
    for (key, value) in [("num_key_value_heads", 3), ("head_dim", 7), ("num_attention_heads", 5)] {
        let mut odd = qwen2();
        odd.insert(key.into(), json!(value));
        assert!(read(odd).is_err(), "{key}");
    }
}

/// A value of the same kind that means something else.
fn flipped(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Bool(flag) => json!(!flag),
        Value::Number(number) if number.is_f64() => json!(number.as_f64()? * 1.5 + 0.25),
        Value::Number(number) => json!(number.as_i64()? + 1),
        Value::String(_) => json!("of_tomorrow"),
        Value::Array(items) => Value::Array(items.iter().map(flipped).collect::<Option<_>>()?),
        Value::Object(table) => Value::Object(
            table.iter().map(|(key, value)| (key.clone(), flipped(value).unwrap_or(Value::Null))).collect(),
        ),
        Value::Null => return None,
    })
}

/// Each key of each family's file, with another value: refused, read as something else, or one that changes nothing.
#[test]
fn no_key_is_passed_over_in_silence() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut changed = 0;
    for entry in std::fs::read_dir(golden).expect("a folder") {
        let path = entry.expect("an entry").path().join("config.json");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let source: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        let plain = read(source.clone()).expect("a golden model");
        assert_eq!(plain.unknown_keys, [""; 0], "{}", path.display());
        for (key, value) in &source {
            // Only the text part of a model that sees pictures is read.
            let is_of_pictures = plain.is_text_part && key != "text_config" && key != "tie_word_embeddings";
            // Keys that another one makes idle: a flag without a window, and patterns beside lists of layers.
            let said = |key: &str| source.get(key).is_some_and(|value| !value.is_null());
            let is_idle = match key.as_str() {
                "use_sliding_window" => !said("sliding_window"),
                "sliding_window" => source.get("use_sliding_window") == Some(&json!(false)),
                "no_rope_layer_interval" => said("no_rope_layers"),
                "sliding_window_pattern" => said("layer_types"),
                _ => false,
            };
            let flip = flipped(value).filter(|flip| flip != value && !is_of_pictures && !is_idle);
            let Some(value) = flip else { continue };
            let mut other = source.clone();
            other.insert(key.clone(), value.clone());
            match read(other) {
                Err(_) => changed += 1,
                Ok(read) if ModelConfig { source: plain.source.clone(), ..read.clone() } != plain => changed += 1,
                Ok(_) => assert!(keys::is_harmless(key), "{}: {key} = {value}", path.display()),
            }
        }
    }
    assert!(changed > 300, "{changed}");
}
