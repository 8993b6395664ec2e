//! Comparison with transformers, PyTorch and NumPy: `tests/reference` computes the numbers in `tests/golden`.
#![allow(non_snake_case)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_engine::{Column, Loss, TokenNumbers, TokenRows, TokenStats};
use gymkhana_learner::advantage::ComparisonRule;
use gymkhana_policy::{Conversation, GenerateRequest, Policy, Sampling, ScoreRequest};
use gymkhana_record::Seed;
use gymkhana_trainer::adamw::AdamW;
use gymkhana_trainer::parameters::Parameters;
use gymkhana_trainer::rope::Rope;
use gymkhana_trainer::{Algorithm, Baseline, MomentFormat, Optimizer, Scale, Trainer, TrainerSettings, loss};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

/// Each family with tied and untied embeddings; among them sharded files, bfloat16, float16, and every kind of rotary
/// positions.
const MODELS: [&str; 6] = ["qwen2-tied", "qwen2-untied", "qwen3-tied", "qwen3-untied", "llama-tied", "llama-untied"];
/// The other families. Their longest prompts are longer than their windows and original contexts.
const OTHERS: [&str; 22] = [
    "qwen2-windows",
    "mistral",
    "ministral3",
    "mixtral",
    "qwen2-moe",
    "qwen3-moe",
    "gemma2",
    "gemma3",
    "phi3",
    "phi3-long",
    "smollm3",
    "olmo2",
    "olmo3",
    "granite",
    "seed-oss",
    "exaone4",
    "ernie4.5",
    "hunyuan",
    "glm4",
    "qwen2.5-vl",
    "qwen3-vl",
    "gemma3-vision",
];

fn models() -> impl Iterator<Item = &'static str> {
    MODELS.into_iter().chain(OTHERS)
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn json(name: &str) -> Value {
    let text = std::fs::read_to_string(golden(name)).expect("a golden file");
    serde_json::from_str(&text).expect("JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn tokens(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|number| number as u32).collect()
}

fn tensor(value: &Value) -> Tensor {
    Tensor::from_slice(&numbers(value)).to_kind(Kind::Float)
}

fn largest_difference(left: &Tensor, right: &Tensor) -> f64 {
    (left - right).abs().max().double_value(&[])
}

/// Largest difference between the logits of the model in `folder` and transformers' logits of the golden model `name`.
fn difference_of_logits(folder: &Path, name: &str) -> f64 {
    let model = gymkhana_trainer::open_model(folder, Device::Cpu).expect("a model");
    let prompts = json(&format!("{name}/golden.json"))["prompts"].clone();
    let logits = Tensor::read_safetensors(golden(name).join("golden.safetensors")).expect("logits");
    let of_prompt = |(index, prompt): (usize, &Value)| {
        let key = format!("logits.{index}");
        let (_, expected) = logits.iter().find(|(found, _)| *found == key).expect("a prompt's logits");
        largest_difference(&model.logits(&tokens(prompt)).expect("logits"), expected)
    };
    prompts.as_array().expect("a list").iter().enumerate().map(of_prompt).fold(0.0, f64::max)
}

#[test]
fn logits_equal_those_of_transformers() {
    for name in models() {
        let difference = difference_of_logits(&golden(name), name);
        assert!(difference <= 2e-5, "{name}: {difference}");
    }
}

/// A saved checkpoint holds the same model, whatever files and number formats it was loaded from.
#[tokio::test]
async fn checkpoints_hold_the_same_model() {
    let root = tempfile::tempdir().expect("a folder");
    for name in models() {
        let folder = root.path().join(name);
        let trainer = Trainer::open(&golden(name), &TrainerSettings::default()).expect("a model");
        trainer.save(&folder, &Value::Null).await.expect("saved");
        let difference = difference_of_logits(&folder, name);
        assert!(difference <= 2e-5, "{name}: {difference}");
    }
}

/// Files of older transformers have `rope_theta`, and `rope_scaling` with a `type`.
#[test]
fn older_files_have_the_same_rotary_positions() {
    for name in MODELS {
        let folder = tempfile::tempdir().expect("a folder");
        for entry in std::fs::read_dir(golden(name)).expect("a folder") {
            let path = entry.expect("an entry").path();
            std::fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("copied");
        }
        let mut config = json(&format!("{name}/config.json"));
        let mut rope = config.as_object_mut().expect("an object").remove("rope_parameters").expect("positions");
        let rope = rope.as_object_mut().expect("an object");
        config["rope_theta"] = rope.remove("rope_theta").expect("a base");
        let kind = rope.remove("rope_type").expect("a kind");
        if kind != "default" {
            rope.insert("type".to_owned(), kind);
            config["rope_scaling"] = Value::Object(rope.clone());
        }
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
        let difference = difference_of_logits(folder.path(), name);
        assert!(difference <= 2e-5, "{name}: {difference}");
    }
}

#[test]
fn rotary_frequencies_equal_those_of_transformers() {
    for case in json("rope.json").as_array().expect("cases") {
        let config = case["config"].as_object().expect("an object");
        let number = |key: &str| config[key].as_i64().expect("a number");
        let rope = Rope::read(config, number("max_position_embeddings"), 10_000.0).expect("known positions");
        let expected = numbers(&case["frequencies"]);
        let found = rope.frequencies(number("head_dim"), number("max_position_embeddings")).expect("frequencies");
        assert_eq!(found.len(), expected.len(), "{case}");
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((f64::from(found) - expected).abs() <= 2e-7 * expected, "{case}: {found} is not {expected}");
        }
        assert!((rope.attention() - case["attention"].as_f64().expect("a number")).abs() < 1e-12, "{case}");
    }
}

/// All prompts at once, in two turns each, so that the test covers prefill, cache and batching.
#[tokio::test]
async fn cached_greedy_continuations_equal_those_of_transformers() {
    for (name, deterministic) in models().flat_map(|name| [(name, false), (name, true)]) {
        let settings = TrainerSettings { max_concurrent_sequences: 4, deterministic, ..TrainerSettings::default() };
        let trainer = Trainer::open(&golden(name), &settings).expect("a model");
        let golden = json(&format!("{name}/golden.json"));
        let pairs = golden["prompts"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(golden["continuations"].as_array().into_iter().flatten());
        let all = pairs.enumerate().map(|(index, (prompt, expected))| {
            let (trainer, mut all, expected) = (trainer.clone(), tokens(prompt), tokens(expected));
            async move {
                let prompt = all.len();
                for most in [5, expected.len() - 5] {
                    let request = GenerateRequest {
                        conversation: Conversation { id: index as u64, place: index as u32 },
                        tokens: Arc::from(&all[..]),
                        max_tokens: most,
                        stop: Arc::from([]),
                        stop_texts: None,
                        sampling: Sampling::GREEDY,
                        seed: Seed(0),
                        token_sink: None,
                    };
                    all.extend(trainer.generate(request).await.expect("a reply").sampled.tokens);
                }
                assert_eq!(all[prompt..], expected, "{name}, prompt {index}");
            }
        });
        futures::future::join_all(all).await;
    }
}

#[tokio::test]
async fn scores_equal_the_log_softmax_of_transformers_logits() {
    let trainer = Trainer::open(&golden(MODELS[0]), &TrainerSettings::default()).expect("a model");
    let prompt = tokens(&json("qwen2-tied/golden.json")["prompts"][2]);
    let logits = Tensor::read_safetensors(golden(MODELS[0]).join("golden.safetensors")).expect("logits");
    let (_, logits_SV) = logits.iter().find(|(name, _)| name == "logits.2").expect("the prompt's logits");
    let log_probs_SV = logits_SV.log_softmax(-1, Kind::Double);
    let (prefix, continuation) = prompt.split_at(4);
    let request = ScoreRequest { prefix: Arc::from(prefix), continuation: Arc::from(continuation) };
    let scored = trainer.score(request).await.expect("scores");
    for (index, token) in continuation.iter().enumerate() {
        let row = log_probs_SV.get((prefix.len() + index - 1) as i64);
        let expected = row.double_value(&[i64::from(*token)]);
        assert!((f64::from(scored.log_probs[index]) - expected).abs() < 2e-5);
        let entropy = -(row.exp() * row).sum(Kind::Double).double_value(&[]);
        assert!((f64::from(scored.entropies[index]) - entropy).abs() < 1e-4);
    }
}

#[test]
fn advantages_equal_those_of_numpy() {
    for case in json("advantages.json").as_array().expect("cases") {
        let baseline: Baseline = serde_json::from_value(case["baseline"].clone()).expect("a baseline");
        let scale: Scale = serde_json::from_value(case["scale"].clone()).expect("a scale");
        let found = ComparisonRule { baseline, scale, batch_deviation: 0.0 }.of(&numbers(&case["rewards"]));
        for (found, expected) in found.into_iter().zip(numbers(&case["advantages"])) {
            assert!((found - expected).abs() < 1e-9, "{case}: {found}");
        }
    }
}

#[test]
fn losses_and_gradients_equal_those_of_pytorch() {
    let golden = json("losses.json");
    let take = |name: &str| tensor(&golden[name]);
    let flag = |name: &str| golden[name].as_f64().expect("a number");
    let vocabulary = golden["vocabulary"].as_i64().expect("a number");
    let logits_NV = take("logits").view([-1, vocabulary]).set_requires_grad(true);
    let targets_N = take("targets").to_kind(Kind::Int64);
    let (log_probs_N, entropies_N) = loss::token_log_probs(&logits_NV, &targets_N, true);
    let entropies_N = entropies_N.expect("asked for");
    for (name, found) in [("entropies", &entropies_N), ("cross_entropy", &-&log_probs_N)] {
        let difference = largest_difference(found, &take(name));
        assert!(difference < 1e-6, "{name}: {difference}");
    }
    let mut stats = TokenStats::neutral(targets_N.numel());
    for (column, name) in [
        (Column::Proximal, "behaviour"),
        (Column::Advantage, "advantages"),
        (Column::Reference, "reference"),
        (Column::LossWeight, "weights"),
    ] {
        stats.column_mut(column).copy_from_slice(&numbers(&golden[name]));
    }
    let estimated = r#"{ beta = 1.0, estimator = "k3", place = "loss" }"#;
    let table = format!(
        "surrogate = {{ kind = 'clip', low = {}, high = {} }}\nratio = 'token'\nbaseline = 'none'\n\
         aggregation = 'token'\nkl = {estimated}\nentropy_bonus = {}\n",
        flag("clip_low"),
        flag("clip_high"),
        flag("entropy_bonus")
    );
    let mut flags: Algorithm = toml::from_str(&table).expect("flags");
    flags.kl.as_mut().expect("a penalty").beta = flag("kl_beta");
    let read = |values_N: &Tensor| Vec::<f64>::try_from(values_N.detach().to_kind(Kind::Double)).expect("numbers");
    let found = TokenNumbers { entropies: Some(read(&entropies_N)), ..read(&log_probs_N).into() };
    let loss = Loss::Policy { flags: &flags, version: 0 };
    let evaluated = loss.evaluate(&found, &TokenRows::new(&stats, None));
    let sums = ["clipped", "k3"].map(|name| numbers(&golden[name]).iter().sum::<f64>());
    assert_eq!(evaluated.sums.clipped, sums[0]);
    assert!((evaluated.sums.from_reference - sums[1]).abs() < 1e-6);
    assert!((evaluated.sums.loss - flag("total")).abs() < 1e-6);
    let by = |numbers: &[f64]| Tensor::from_slice(numbers).to_kind(Kind::Float);
    let by_entropies = evaluated.by.entropies.expect("asked for");
    let pulled = (&log_probs_N * by(&evaluated.by.log_probs) + &entropies_N * by(&by_entropies)).sum(Kind::Float);
    let gradient = Tensor::run_backward(&[&pulled], &[&logits_NV], true, false).remove(0);
    assert!(largest_difference(&gradient.view([-1]), &take("gradient")) < 1e-6);
    let cross_entropy = (-log_probs_N * take("weights")).sum(Kind::Float);
    let gradient = Tensor::run_backward(&[&cross_entropy], &[&logits_NV], false, false).remove(0);
    assert!(largest_difference(&gradient.view([-1]), &take("cross_entropy_gradient")) < 1e-6);
}

#[test]
fn adamw_steps_equal_those_of_pytorch() {
    let golden = json("adamw.json");
    let settings: Optimizer = serde_json::from_value(golden["settings"].clone()).expect("settings");
    let names = ["first", "second", "embed_tokens.weight"];
    let shape = |name: &str| -> Vec<i64> { numbers(&golden["shapes"][name]).iter().map(|size| *size as i64).collect() };
    let shapes = names.map(|name| (name.to_owned(), shape(name)));
    let parameters = Parameters::zeros(&shapes, Device::Cpu).expect("parameters");
    for name in names {
        parameters.set(name, &tensor(&golden["start"][name]).view(&shape(name)[..])).expect("the same shape");
    }
    let mut optimizer = AdamW::default();
    let mut previous: Vec<Tensor> = Vec::new();
    for (index, step) in golden["steps"].as_array().expect("steps").iter().enumerate() {
        // Parameters accumulate gradients, so each step's loss subtracts the previous gradient.
        let gradients: Vec<Tensor> =
            names.iter().map(|name| tensor(&step["gradients"][*name]).view(&shape(name)[..])).collect();
        for (place, name) in names.iter().enumerate() {
            let change = previous.get(place).map_or_else(|| gradients[place].copy(), |last| &gradients[place] - last);
            (parameters.get(name).expect("known") * change).sum(Kind::Float).backward();
        }
        previous = gradients;
        let norm = optimizer.step(&parameters, &settings).expect("a step").expect("finite");
        assert!((norm - step["norm"].as_f64().expect("a number")).abs() < 1e-5, "step {index}: norm {norm}");
        for name in names {
            let found = parameters.get(name).expect("known").detach().view([-1]);
            let difference = largest_difference(&found, &tensor(&step["after"][name]));
            assert!(difference < 1e-6, "step {index}, {name}: {difference}");
        }
    }
    assert_eq!(optimizer.steps(), 5);
}

/// Numbers from -1 to 1, as `numbers` of `make_training_goldens.py` computes them.
fn numbers_of_step(count: i64, step: i64, shift: i64) -> Tensor {
    let whole = (0..count).map(|index| (index * 7919 + step * 104_729 + shift) % 1999 - 999);
    let numbers: Vec<f32> =
        whole.map(|number| (if number.abs() > 99 { number } else { 100 }) as f32 / 1000.0).collect();
    Tensor::from_slice(&numbers)
}

/// Moments of 8 bits move parameters as those of another program do, and not as moments in float32.
#[test]
fn adamw_steps_with_coded_moments_equal_those_of_torchao() {
    let golden = json("adamw-8-bit.json");
    let coded: Optimizer = serde_json::from_value(golden["settings"].clone()).expect("settings");
    let plain = Optimizer { moments: MomentFormat::Float32, ..coded.clone() };
    let shape: Vec<i64> = numbers(&golden["shape"]).iter().map(|size| *size as i64).collect();
    let (name, count) = ("model.layers.0.mlp.up_proj.weight", shape.iter().product());
    let largest = |settings: &Optimizer| -> f64 {
        let mut parameters = Parameters::zeros(&[(name.to_owned(), shape.clone())], Device::Cpu).expect("parameters");
        parameters.set(name, &numbers_of_step(count, 0, 17).view(&shape[..])).expect("the same shape");
        let mut optimizer = AdamW::default();
        let mut largest = 0.0_f64;
        for (index, after) in golden["after"].as_array().expect("steps").iter().enumerate() {
            let factor = if index == 3 { 0.01 } else { 1.0 };
            let gradient = numbers_of_step(count, index as i64 + 1, 0).view(&shape[..]) * factor;
            parameters.forget_gradients().expect("forgotten");
            (parameters.get(name).expect("known") * gradient).sum(Kind::Float).backward();
            optimizer.step(&parameters, settings).expect("a step").expect("finite");
            let found = parameters.get(name).expect("known").detach().view([-1]).slice(0, 0, count, 64);
            largest = largest.max(largest_difference(&found, &tensor(after)));
        }
        largest
    };
    let [coded, plain] = [&coded, &plain].map(largest);
    assert!(coded < 1e-6, "{coded}");
    assert!(plain > 1e-4, "{plain}");
}
