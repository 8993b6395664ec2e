//! Weight updates: after each, the server computes with the weights of the trainer.

use std::path::Path;

use gymkhana_policy::Policy;
use gymkhana_policy_server::{ServerError, ServerPolicy};
use gymkhana_trainer::Trainer;
use serde_json::Value;

use crate::server::{Vllm, settings, tied};

/// Number of updates.
const PUSHES: u64 = 10;
/// Largest mean difference of log-probabilities after an update, in nats.
const LIMIT: f64 = 1e-3;

/// Pushes a folder's weights and returns the divergence from the trainer's.
async fn push(server: &ServerPolicy, folder: &Path, version: u32, trainer: &Trainer) -> Result<f64, ServerError> {
    server.push(folder, version).await?;
    let text = server.fixed_text().expect("encoded").expect("a text");
    let expected = trainer.score(text.clone()).await.expect("scored").log_probs;
    server.verify(&text, &expected).await
}

/// A model with tied embeddings is served and pushed as an untied copy.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn a_tied_model_is_exact_after_each_of_ten_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let first = tied(0);
    first.export(&path("first")).await.expect("written");
    let vllm = Vllm::start(&path("first"), &path("log"));
    let server = vllm.connect(&first).await;
    for seed in 1..=PUSHES {
        let (trainer, copy) = (tied(seed), path(&seed.to_string()));
        trainer.export(&copy).await.expect("written");
        let divergence = push(&server, &copy, seed as u32, &trainer).await.expect("pushed");
        println!("tied, push {seed}: {divergence:.2e} nats");
        assert!(divergence < LIMIT, "push {seed}: {divergence}");
    }
    // The checkpoint as it is has no output layer: vLLM reports success and keeps the old one.
    let trainer = tied(PUSHES + 1);
    trainer.save(&path("checkpoint"), &Value::Null).await.expect("written");
    let refused = push(&server, &path("checkpoint"), 11, &trainer).await.expect_err("the old output layer");
    assert!(matches!(refused, ServerError::Divergence { difference, .. } if difference > 0.1), "{refused}");
}

/// A checkpoint of an untied model is served as it is, with the trainer's state in it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn an_untied_checkpoint_is_exact_after_each_of_ten_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut vllm = None;
    for seed in 0..=PUSHES {
        let (copy, checkpoint) = (path(&format!("untied-{seed}")), path(&format!("checkpoint-{seed}")));
        tied(seed).export(&copy).await.expect("written");
        let untied = Trainer::open(&copy, &settings(seed)).expect("a model");
        assert!(!untied.config().tie_word_embeddings);
        untied.save(&checkpoint, &Value::Null).await.expect("written");
        if vllm.is_none() {
            assert!(checkpoint.join("trainer").is_dir(), "the checkpoint holds the trainer's state");
            let started = Vllm::start(&checkpoint, &path("log"));
            let server = started.connect(&untied).await;
            vllm = Some((started, server));
        }
        let (_, server) = vllm.as_ref().expect("it runs");
        let divergence = push(server, &checkpoint, seed as u32, &untied).await.expect("pushed");
        println!("untied, push {seed}: {divergence:.2e} nats");
        assert!(divergence < LIMIT, "push {seed}: {divergence}");
    }
}
