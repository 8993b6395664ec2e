//! Checkpoints are complete, or refused with the name of the problem.

use std::path::Path;

use crate::common::{near, score, segment, smallest, written};
use gymkhana_record::Seed;
use gymkhana_trainer::{Lora, Module, Optimizer, SftSettings, TinyModel, Trainer, TrainerError, TrainerSettings};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

async fn saved(folder: &Path) -> Trainer {
    let trainer = Trainer::create(&smallest(), &TrainerSettings { seed: Seed(1), ..TrainerSettings::default() })
        .expect("a model");
    let demonstration = [segment(&[1, 2], &written(&[3, 4]))];
    trainer.sft_step(&demonstration, &SftSettings::default()).await.expect("a step");
    trainer.save(folder, &Value::Null).await.expect("saved");
    trainer
}

fn refusal(folder: &Path) -> String {
    Trainer::open(folder, &TrainerSettings::default()).expect_err("incomplete").to_string()
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).expect("text");
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).expect("written");
}

#[tokio::test]
async fn failed_saves_overwrite_nothing_and_leave_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("deep/1");
    let trainer = saved(&folder).await;
    let error = trainer.save(&folder, &Value::Null).await.expect_err("it exists");
    assert!(matches!(error, TrainerError::Exists { .. }), "{error}");
    let names = std::fs::read_dir(root.path().join("deep")).expect("a folder").count();
    assert_eq!(names, 1, "only the checkpoint");
    std::fs::write(root.path().join("file"), "").expect("written");
    let error = trainer.save(&root.path().join("file/1"), &Value::Null).await.expect_err("below a file");
    assert!(matches!(error, TrainerError::File { .. }), "{error}");
    assert!(Trainer::open(&folder, &TrainerSettings::default()).is_ok(), "the thread still runs");
}

#[tokio::test]
async fn incomplete_and_changed_checkpoints_are_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let names = ["config.json", "model.safetensors", "tokenizer.json", "trainer/state.safetensors", "trainer.json"];
    for (index, name) in names.into_iter().enumerate() {
        let folder = root.path().join(index.to_string());
        saved(&folder).await;
        let path = folder.join(name);
        let bytes = std::fs::read(&path).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        let message = refusal(&folder);
        assert!(message.contains(name), "{message}");
        std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
        let message = refusal(&folder);
        assert!(message.contains(name) && message.contains("changed"), "{message}");
    }
}

/// Writes the digest of a changed file into the list of checksums.
fn list_again(folder: &Path, name: &str) {
    let digest: String = Sha256::digest(std::fs::read(folder.join(name)).expect("a file"))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let list = folder.join("SHA256SUMS");
    let text = std::fs::read_to_string(&list).expect("a list");
    let line = |line: &str| {
        if line.ends_with(&format!("  {name}")) { format!("{digest}  {name}\n") } else { format!("{line}\n") }
    };
    std::fs::write(&list, text.lines().map(line).collect::<String>()).expect("written");
}

/// Removes the training state, so that only the model is left.
fn make_plain(folder: &Path) {
    for name in ["trainer.json", "trainer/state.safetensors", "SHA256SUMS"] {
        std::fs::remove_file(folder.join(name)).expect("removed");
    }
}

/// Inference servers load every `*.safetensors` next to `config.json` as weights of the model.
#[tokio::test]
async fn the_models_weights_are_the_only_tensors_at_the_top_of_a_checkpoint() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&folder).await;
    let entries = std::fs::read_dir(&folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let tensors: Vec<String> = names.filter(|name| name.ends_with(".safetensors")).collect();
    assert_eq!(tensors, ["model.safetensors"]);
    let list = std::fs::read_to_string(folder.join("SHA256SUMS")).expect("a list");
    assert!(list.contains("  trainer/state.safetensors\n"), "{list}");
}

/// Steps on a demonstration with a moving average of the weights.
async fn averaging_steps(trainer: &Trainer, count: usize) {
    let optimizer = Optimizer { learning_rate: 1e-2, ema: Some(0.5), ..Optimizer::default() };
    let settings = SftSettings { optimizer, ..SftSettings::default() };
    for _ in 0..count {
        trainer.sft_step(&[segment(&[1, 2], &written(&[3, 4]))], &settings).await.expect("a step");
    }
}

/// A run that goes on from a checkpoint has the weights and the average of one that was never interrupted, bit by bit. The
/// averaged model is one of its own, which generation may use for a while.
#[tokio::test]
async fn the_average_of_the_weights_survives_a_resume_and_is_a_model_of_its_own() {
    let root = tempfile::tempdir().expect("a folder");
    let lora = Lora { rank: 2, alpha: 4.0, modules: vec![Module::QProj, Module::UpProj] };
    for (name, lora) in [("all", None), ("adapters", Some(lora))] {
        let settings = TrainerSettings { seed: Seed(1), lora, ..TrainerSettings::default() };
        let path = |step: &str| root.path().join(name).join(step);
        let trainer = Trainer::create(&smallest(), &settings).expect("a model");
        averaging_steps(&trainer, 2).await;
        trainer.save(&path("2"), &Value::Null).await.expect("saved");
        let [prefix, reply] = [[1, 2], [3, 4]];
        let own = score(&trainer, &prefix, &reply).await.log_probs;
        trainer.use_average(true).await.expect("the average");
        let averaged = score(&trainer, &prefix, &reply).await.log_probs;
        assert!(own.iter().zip(&averaged).all(|(own, averaged)| own > averaged), "the average lags behind");
        let alone = Trainer::open(&path("2/average"), &TrainerSettings::default()).expect("a model");
        near(&score(&alone, &prefix, &reply).await.log_probs, &averaged, 1e-5);
        // The next step continues from the weights, and so does a resumed run.
        averaging_steps(&trainer, 1).await;
        trainer.use_average(true).await.expect("the average");
        trainer.save(&path("3"), &Value::Null).await.expect("saved");
        let resumed = Trainer::open(&path("2"), &settings).expect("a checkpoint");
        assert_eq!(score(&resumed, &prefix, &reply).await.log_probs, own);
        averaging_steps(&resumed, 1).await;
        resumed.save(&path("again"), &Value::Null).await.expect("saved");
        for file in ["model.safetensors", "average/model.safetensors", "trainer/state.safetensors"] {
            let [found, expected] = ["again", "3"].map(|step| std::fs::read(path(step).join(file)).expect("a file"));
            assert!(found == expected, "{name}: {file}");
        }
        let list = std::fs::read_to_string(path("3/SHA256SUMS")).expect("a list");
        assert!(list.contains("  average/model.safetensors\n") && list.contains("  average/config.json\n"), "{list}");
    }
}

/// Schema 4 kept the optimiser's state next to the weights.
#[tokio::test]
async fn a_checkpoint_of_schema_4_continues_as_one_of_schema_5() {
    let root = tempfile::tempdir().expect("a folder");
    let [new, old] = ["new", "old"].map(|name| root.path().join(name));
    let trainer = saved(&new).await;
    trainer.save(&old, &Value::Null).await.expect("saved");
    std::fs::rename(old.join("trainer/state.safetensors"), old.join("trainer.safetensors")).expect("moved");
    std::fs::remove_dir(old.join("trainer")).expect("removed");
    edit(&old.join("trainer.json"), "\"schema\":5", "\"schema\":4");
    edit(&old.join("SHA256SUMS"), "  trainer/state.safetensors", "  trainer.safetensors");
    list_again(&old, "trainer.json");
    let demonstration = [segment(&[1, 2], &written(&[3, 4]))];
    let mut weights = Vec::new();
    for folder in [&new, &old] {
        let trainer = Trainer::open(folder, &TrainerSettings::default()).expect("a checkpoint");
        trainer.sft_step(&demonstration, &SftSettings::default()).await.expect("a step");
        let after = folder.with_extension("after");
        trainer.save(&after, &Value::Null).await.expect("saved");
        weights.push(std::fs::read(after.join("model.safetensors")).expect("weights"));
    }
    // With another optimiser state the second step would differ.
    assert!(weights[0] == weights[1], "both continue with the same moments");
    std::fs::remove_file(old.join("trainer.safetensors")).expect("removed");
    assert!(refusal(&old).contains("`trainer.safetensors`, which `SHA256SUMS` lists, is missing"), "{}", refusal(&old));
}

#[tokio::test]
async fn a_checkpoint_of_another_schema_or_with_an_unknown_field_is_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&folder).await;
    let path = folder.join("trainer.json");
    for (from, to, words) in [
        ("\"schema\":5", "\"schema\":6", "`trainer.json` has schema 6, not 4 to 5"),
        ("\"schema\":6", "\"schema\":3", "`trainer.json` has schema 3, not 4 to 5"),
        ("\"schema\":3", "\"schema\":5,\"note\":1", "trainer.json`: not the expected JSON"),
        (",\"note\":1", "", ""),
    ] {
        edit(&path, from, to);
        let message = refusal(&folder);
        assert!(message.contains("`trainer.json` or its digest in `SHA256SUMS` was changed"), "{message}");
        list_again(&folder, "trainer.json");
        match words {
            "" => drop(Trainer::open(&folder, &TrainerSettings::default()).expect("the original file")),
            words => assert!(refusal(&folder).contains(words), "{}", refusal(&folder)),
        }
    }
}

/// The list of checksums names every file that is read, and nothing outside of the folder.
#[tokio::test]
async fn a_damaged_list_of_checksums_is_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&folder).await;
    let list = folder.join("SHA256SUMS");
    let whole = std::fs::read_to_string(&list).expect("a list");
    let without = |name: &str| {
        whole.lines().filter(|line| !line.ends_with(name)).map(|line| format!("{line}\n")).collect::<String>()
    };
    let first = whole.lines().next().expect("a line");
    let outside = format!("{}  ../1/config.json\n{whole}", &first[..64]);
    let cases: [(String, &str); 5] = [
        (without("  config.json"), "`SHA256SUMS` has no digest of `config.json`"),
        (without("  tokenizer.json"), "`SHA256SUMS` has no digest of `tokenizer.json`"),
        (without("  trainer.json"), "`SHA256SUMS` has no digest of `trainer.json`"),
        (outside, "line 1 of `SHA256SUMS` is not a digest and the name of a file in the folder"),
        (whole.replace("  config.json", "  config.jsom"), "`config.jsom`, which `SHA256SUMS` lists, is missing"),
    ];
    for (text, words) in cases {
        std::fs::write(&list, text).expect("written");
        assert!(refusal(&folder).contains(words), "{words}: {}", refusal(&folder));
    }
    std::fs::remove_file(&list).expect("removed");
    assert!(refusal(&folder).contains("`SHA256SUMS` is missing"));
    std::fs::write(&list, &whole).expect("written");
    std::fs::write(folder.join("added_tokens.json"), "{}").expect("written");
    assert!(refusal(&folder).contains("`SHA256SUMS` has no digest of `added_tokens.json`"));
    std::fs::remove_file(folder.join("added_tokens.json")).expect("removed");
    assert!(Trainer::open(&folder, &TrainerSettings::default()).is_ok());
}

/// A folder without `trainer.json` is a plain model, whose weights must fit its config.
#[tokio::test]
async fn unsupported_models_are_refused_by_name() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&folder).await;
    make_plain(&folder);
    let plain = Trainer::open(&folder, &TrainerSettings::default()).expect("a plain model");
    assert_eq!((plain.position(), plain.weight_version()), (None, 0));
    let config = folder.join("config.json");
    edit(&config, "\"intermediate_size\": 48", "\"intermediate_size\": 64");
    assert!(refusal(&folder).contains("intermediate_size = 64 in config.json, but `model.layers.0.mlp.gate_proj"));
    edit(&config, "\"intermediate_size\": 64", "\"intermediate_size\": 48");
    edit(&config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    assert!(refusal(&folder).contains("num_hidden_layers = 1 in config.json, but the weights have 2 layers"));
    edit(&config, "\"model_type\": \"qwen2\"", "\"model_type\": \"gpt_oss\"");
    assert!(refusal(&folder).contains("model_type = \"gpt_oss\", which needs attention sinks"));
}

/// The config and the headers of the weights are compared before memory for the model is allocated.
#[tokio::test]
async fn sizes_that_the_weights_do_not_have_are_refused_by_key() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&folder).await;
    make_plain(&folder);
    let config = folder.join("config.json");
    for (key, own, other) in [
        ("num_hidden_layers", "2", "1000"),
        ("num_hidden_layers", "2", "10000000"),
        ("vocab_size", "264", "4000000"),
        ("intermediate_size", "48", "1000000"),
        ("num_attention_heads", "4", "4096"),
    ] {
        let line = |value: &str| format!("\"{key}\": {value},");
        edit(&config, &line(own), &line(other));
        let message = refusal(&folder);
        assert!(message.contains(key), "{message}");
        edit(&config, &line(other), &line(own));
    }
    assert!(Trainer::open(&folder, &TrainerSettings::default()).is_ok(), "the sizes of the weights are accepted");
    // A header of tensors that the file does not contain.
    let header = r#"{"model.embed_tokens.weight":
        {"dtype": "F32", "shape": [1000000, 1000000], "data_offsets": [0, 4000000000000]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(folder.join("model.safetensors"), bytes).expect("written");
    assert!(refusal(&folder).contains("model.safetensors` is not a complete safetensors file"));
    std::fs::write(folder.join("model.safetensors"), u64::MAX.to_le_bytes()).expect("written");
    assert!(refusal(&folder).contains("model.safetensors` is not a complete safetensors file"));
}

/// A model in several files is complete, or refused with the name of the damaged file.
#[test]
fn sharded_weights_are_complete_or_refused() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/qwen3-tied");
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path();
    for entry in std::fs::read_dir(golden).expect("a folder") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, folder.join(path.file_name().expect("a name"))).expect("copied");
    }
    assert!(Trainer::open(folder, &TrainerSettings::default()).is_ok());
    let [first, second] = ["model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors"];
    let index = folder.join("model.safetensors.index.json");
    let text = std::fs::read_to_string(&index).expect("an index");
    std::fs::write(&index, text.replacen(first, second, 1)).expect("written");
    let message = refusal(folder);
    assert!(message.contains(&format!("is in `{first}`, but the index names `{second}`")), "{message}");
    std::fs::write(&index, text).expect("written");
    let bytes = std::fs::read(folder.join(second)).expect("weights");
    std::fs::write(folder.join(second), &bytes[..bytes.len() - 4]).expect("written");
    assert!(refusal(folder).contains(&format!("{second}` is not a complete safetensors file")));
    std::fs::copy(folder.join(first), folder.join(second)).expect("copied");
    let message = refusal(folder);
    assert!(message.contains(second) && message.contains("is also in another file"), "{message}");
    std::fs::remove_file(folder.join(second)).expect("removed");
    assert!(refusal(folder).contains(second));
    edit(&index, second, first);
    let message = refusal(folder);
    assert!(message.contains("model.safetensors.index.json") && message.contains("is missing"), "{message}");
    edit(&index, first, "../elsewhere.safetensors");
    assert!(refusal(folder).contains("`../elsewhere.safetensors`"));
}

/// A tokenizer with more tokens than the embedding has rows, and an adapter without its base model.
#[tokio::test]
async fn folders_that_are_no_whole_model_are_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&folder).await;
    make_plain(&folder);
    let tokenizer = folder.join("tokenizer.json");
    let text = std::fs::read_to_string(&tokenizer).expect("a tokenizer");
    let mut larger: Value = serde_json::from_str(&text).expect("JSON");
    larger["model"]["vocab"]["new"] = 264.into();
    std::fs::write(&tokenizer, larger.to_string()).expect("written");
    let message = refusal(&folder);
    assert!(message.contains("the tokenizer is larger than the embedding: 265 tokens, 264 rows\nhint: "), "{message}");
    std::fs::write(&tokenizer, text).expect("written");
    assert!(Trainer::open(&folder, &TrainerSettings::default()).is_ok());
    std::fs::rename(folder.join("config.json"), folder.join("adapter_config.json")).expect("renamed");
    assert!(refusal(&folder).contains("it holds an adapter without its base model\nhint: "));
}

#[test]
fn weights_depend_only_on_the_seed() {
    let tiny = TinyModel::default();
    let parameters = |seed| {
        let settings = TrainerSettings { seed: Seed(seed), max_concurrent_sequences: 1, ..TrainerSettings::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let trainer = Trainer::create(&tiny, &settings).expect("a model");
        runtime.block_on(trainer.save(&folder.path().join("1"), &Value::Null)).expect("saved");
        std::fs::read(folder.path().join("1/model.safetensors")).expect("weights")
    };
    let one = parameters(1);
    assert_eq!(one, parameters(1));
    assert_ne!(one, parameters(2));
    // 1.35 million float32 numbers and a header.
    assert!((5_300_000..5_500_000).contains(&one.len()), "{}", one.len());
}

/// A server's copy has an output layer of its own; a checkpoint of a tied model stays tied.
#[tokio::test]
async fn an_exported_model_is_untied_and_computes_the_same() {
    let root = tempfile::tempdir().expect("a folder");
    let [checkpoint, exported, copied] = ["checkpoint", "exported", "copied"].map(|name| root.path().join(name));
    let trainer = saved(&checkpoint).await;
    trainer.export(&exported).await.expect("written");
    gymkhana_trainer::export_model(&checkpoint, &copied).expect("written");
    let is_tied = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("config.json")).expect("a config");
        serde_json::from_str::<Value>(&text).expect("JSON")["tie_word_embeddings"] == true
    };
    assert_eq!([&checkpoint, &exported, &copied].map(|folder| is_tied(folder)), [true, false, false]);
    let expected = score(&trainer, &[1, 2], &[3, 4, 5]).await.log_probs;
    for folder in [&exported, &copied] {
        let untied = Trainer::open(folder, &TrainerSettings::default()).expect("a model");
        near(&score(&untied, &[1, 2], &[3, 4, 5]).await.log_probs, &expected, 1e-5);
        assert!(!untied.config().tie_word_embeddings && trainer.config().tie_word_embeddings);
    }
}
