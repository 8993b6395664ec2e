//! A LoRA adapter that the server trains: passes, optimiser steps, and its weights under a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use gymkhana_algorithm::Optimizer;
use gymkhana_net::{JsonClientError, RawBody, Received, Repeated};
use prost::Message as _;
use serde_json::{Value, json};

use crate::datum::{Datum, Reduction, ServerLoss};
use crate::error::TinkerError;
use crate::wire;
use crate::{TinkerClient, text};

/// Adapter of a new model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoraSettings {
    /// Rank of the adapter.
    pub rank: u32,
    /// Seed of its first weights.
    pub seed: u32,
}

/// A LoRA adapter on the server.
#[derive(Debug)]
pub struct TinkerModel {
    client: Arc<TinkerClient>,
    settings: LoraSettings,
    id: String,
    reduction: Reduction,
    /// Number of the last request of this model, which the server orders requests by.
    last_request: AtomicI32,
}

impl TinkerModel {
    /// Creates an adapter with random weights that change nothing yet.
    ///
    /// # Errors
    /// If the server refuses or does not answer.
    pub async fn create(
        client: Arc<TinkerClient>,
        settings: LoraSettings,
        reduction: Reduction,
    ) -> Result<Self, TinkerError> {
        let LoraSettings { rank, seed } = settings;
        let body = json!({
            "session_id": client.session(),
            "model_seq_id": client.next_model(),
            "base_model": client.model(),
            "lora_config": { "rank": rank, "seed": seed },
            "type": "create_model",
        });
        // The result names the model as the first answer does.
        let made = client.computed_json("/api/v1/create_model", &body, json_text("model_id")).await;
        let id = made.map_err(client.fault("create a model"))?;
        Ok(Self { client, settings, id, reduction, last_request: AtomicI32::new(0) })
    }

    /// Creates an adapter with the weights and the optimiser's state that were saved under a path.
    ///
    /// # Errors
    /// If the server does not have them, refuses or does not answer.
    pub async fn open(
        client: Arc<TinkerClient>,
        settings: LoraSettings,
        reduction: Reduction,
        path: &str,
    ) -> Result<Self, TinkerError> {
        let model = Self::create(client, settings, reduction).await?;
        let body = json!({
            "model_id": model.id,
            "path": path,
            "optimizer": true,
            "seq_id": model.next(),
            "type": "load_weights",
        });
        let loaded = model.client.computed_json("/api/v1/load_weights", &body, |_| Ok(())).await;
        loaded.map_err(model.client.fault("load the weights of a checkpoint"))?;
        Ok(model)
    }

    /// Adds the gradient of a loss over sequences to that of the next optimiser step. Returns the log-probability of each
    /// token but the first of each sequence, in nats.
    ///
    /// # Errors
    /// If the server refuses, does not answer, or answers with other sequences.
    pub async fn forward_backward(&self, data: &[Datum], loss: ServerLoss) -> Result<Vec<Vec<f32>>, TinkerError> {
        self.pass(data, loss, false).await.map_err(self.client.fault("compute gradients"))
    }

    /// The log-probability of each token but the first of each sequence, in nats.
    ///
    /// # Errors
    /// As [`TinkerModel::forward_backward`].
    pub async fn forward(&self, data: &[Datum]) -> Result<Vec<Vec<f32>>, TinkerError> {
        self.pass(data, ServerLoss::Supervised, true).await.map_err(self.client.fault("compute log-probabilities"))
    }

    async fn pass(
        &self,
        data: &[Datum],
        loss: ServerLoss,
        forward_only: bool,
    ) -> Result<Vec<Vec<f32>>, JsonClientError> {
        let (loss_fn, loss_fn_config) = loss.named();
        let request = wire::ForwardBackwardRequest {
            model_id: self.id.clone(),
            seq_id: self.next(),
            data: data.iter().map(|datum| datum.message(loss, self.reduction)).collect(),
            loss_fn: loss_fn.to_owned(),
            loss_fn_config,
            forward_only,
        };
        let body = RawBody { content_type: wire::CONTENT_TYPE, bytes: request.encode_to_vec() };
        let lengths: Vec<usize> = data.iter().map(|datum| datum.tokens.len().saturating_sub(1)).collect();
        let read = |received: &Received| read_passed(received, &lengths);
        self.client.computed("/api/v1/forward_backward", &body, Repeated::Unprocessed, read).await
    }

    /// A further adapter of the same form with the weights that were saved under a path.
    ///
    /// # Errors
    /// As [`TinkerModel::open`].
    pub async fn beside(&self, path: &str) -> Result<Self, TinkerError> {
        Self::open(Arc::clone(&self.client), self.settings, self.reduction, path).await
    }

    /// How the server adds up losses.
    #[must_use]
    pub fn reduction(&self) -> Reduction {
        self.reduction
    }

    /// Moves the weights by the gradient, with the learning rate of this step.
    ///
    /// # Errors
    /// If the server refuses or does not answer.
    pub async fn optim_step(&self, optimizer: &Optimizer, learning_rate: f64) -> Result<(), TinkerError> {
        let Optimizer { beta1, beta2, epsilon, weight_decay, gradient_clip, .. } = optimizer;
        let adam = json!({
            "learning_rate": learning_rate,
            "beta1": beta1,
            "beta2": beta2,
            "eps": epsilon,
            "weight_decay": weight_decay,
            "grad_clip_norm": gradient_clip,
        });
        let body = json!({ "model_id": self.id, "adam_params": adam, "seq_id": self.next(), "type": "optim_step" });
        let stepped = self.client.computed_json("/api/v1/optim_step", &body, |_| Ok(()));
        stepped.await.map_err(self.client.fault("take an optimiser step"))
    }

    /// Saves the weights and the optimiser's state under a name; returns their path, for [`TinkerModel::open`].
    ///
    /// # Errors
    /// If the server refuses or does not answer.
    pub async fn save(&self, name: &str) -> Result<String, TinkerError> {
        self.saved("/api/v1/save_weights", "save_weights", name).await
    }

    /// Saves the weights under a name for sampling; returns their path, for [`crate::TinkerPolicy::load`].
    ///
    /// # Errors
    /// If the server refuses or does not answer.
    pub async fn save_for_sampling(&self, name: &str) -> Result<String, TinkerError> {
        self.saved("/api/v1/save_weights_for_sampler", "save_weights_for_sampler", name).await
    }

    async fn saved(&self, path: &str, kind: &str, name: &str) -> Result<String, TinkerError> {
        let body = json!({ "model_id": self.id, "path": name, "seq_id": self.next(), "type": kind });
        let saved = self.client.computed_json(path, &body, json_text("path")).await;
        saved.map_err(self.client.fault("save the weights"))
    }

    fn next(&self) -> i32 {
        self.last_request.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Reads a text of a JSON result.
fn json_text(name: &'static str) -> impl Fn(&Received) -> Result<String, String> {
    move |received| received.json().and_then(|answer: Value| text(name)(&answer))
}

/// Reads the log-probabilities of a pass; `lengths` are the numbers of each sequence.
fn read_passed(received: &Received, lengths: &[usize]) -> Result<Vec<Vec<f32>>, String> {
    let message = wire::ForwardBackwardOutput::decode(&received.bytes[..])
        .map_err(|error| format!("its result is not that of a pass: {error}"))?;
    let mut log_probs = Vec::new();
    for record in &message.loss_fn_outputs {
        let found = record.fields.get("logprobs").ok_or("its result has no log-probabilities")?;
        if found.dtype != wire::FLOAT32 {
            return Err("its log-probabilities are not 32-bit floating-point numbers".to_owned());
        }
        for bounds in wire::places(&found.offsets)?.windows(2) {
            let bytes = found.data.get(bounds[0]..bounds[1]).ok_or("an offset is beyond its log-probabilities")?;
            log_probs.push(wire::floats(bytes)?);
        }
    }
    let found: Vec<usize> = log_probs.iter().map(Vec::len).collect();
    if found != lengths {
        return Err(format!("its result has log-probabilities of {found:?} tokens, not of {lengths:?}"));
    }
    if log_probs.iter().flatten().any(|log_prob| log_prob.is_nan() || *log_prob > 1e-3) {
        return Err("a log-probability is above 0 or not a number".to_owned());
    }
    Ok(log_probs)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn passed(data: &[f32], offsets: &[i64], lengths: &[usize]) -> Result<Vec<Vec<f32>>, String> {
        let found = wire::BatchedTensor {
            data: data.iter().flat_map(|number| number.to_le_bytes()).collect(),
            offsets: offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect(),
            dtype: wire::FLOAT32,
        };
        let record = wire::ArrayRecord {
            fields: HashMap::from([("logprobs".to_owned(), found)]),
            num_datums: lengths.len() as i64,
        };
        let bytes = wire::ForwardBackwardOutput { loss_fn_outputs: vec![record] }.encode_to_vec();
        read_passed(&Received { content_type: wire::CONTENT_TYPE.to_owned(), bytes }, lengths)
    }

    #[test]
    fn log_probabilities_are_cut_at_the_offsets() {
        let found = passed(&[-1.0, -2.0, -3.0], &[0, 8, 12], &[2, 1]).unwrap();
        assert_eq!(found, [vec![-1.0, -2.0], vec![-3.0]]);
    }

    #[test]
    fn results_that_no_pass_can_have_are_refused() {
        for (data, offsets, lengths, said) in [
            (&[-1.0_f32, -2.0][..], &[0_i64, 8][..], &[3_usize][..], "of [2] tokens, not of [3]"),
            (&[-1.0], &[0, 8], &[2], "an offset is beyond"),
            (&[-1.0], &[4, 0], &[1], "an offset is beyond"),
            (&[-1.0], &[0, -4], &[1], "an offset is negative"),
            (&[0.5], &[0, 4], &[1], "above 0 or not a number"),
            (&[f32::NAN], &[0, 4], &[1], "above 0 or not a number"),
        ] {
            let refused = passed(data, offsets, lengths).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        let text = Received { content_type: String::new(), bytes: b"{\"detail\": 1}".to_vec() };
        assert!(read_passed(&text, &[1]).is_err());
    }
}
