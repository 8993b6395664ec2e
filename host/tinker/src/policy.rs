//! Policy on a Tinker-compatible server: samples with the weights that were loaded last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use gymkhana_net::{JsonClientError, Received, Repeated};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, ServerFailure, Stop,
    are_log_probs, checked_reply,
};
use gymkhana_record::Sampled;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::sync::{RwLock, Semaphore};

use crate::TinkerClient;
use crate::json_body;
use crate::wire;

/// Seeds of the server are below this number.
const SEEDS: u64 = 1 << 31;

/// Policy on the server.
#[derive(Debug)]
pub struct TinkerPolicy {
    client: Arc<TinkerClient>,
    request_slots: Semaphore,
    /// Path of the weights; locked for reading by every request. The base model if there is none.
    weights: RwLock<Option<String>>,
    version: AtomicU32,
    vocabulary: usize,
    context: usize,
    /// Failure of the last request, if it failed.
    last_failure: Mutex<Option<ServerFailure>>,
}

impl TinkerPolicy {
    /// A policy that samples from the server's base model, with at most `requests` at once.
    #[must_use]
    pub fn new(client: Arc<TinkerClient>, requests: usize, vocabulary: usize, context: usize) -> Self {
        Self {
            client,
            request_slots: Semaphore::new(requests),
            weights: RwLock::new(None),
            version: AtomicU32::new(0),
            vocabulary,
            context,
            last_failure: Mutex::default(),
        }
    }

    /// Samples with the weights under a path from now on, after all requests in progress. Their tokens have this version.
    pub async fn load(&self, path: String, version: u32) {
        let mut weights = self.weights.write().await;
        *weights = Some(path);
        self.version.store(version, Ordering::Release);
    }

    /// Whether it samples with weights of this version that were loaded.
    pub async fn has_weights(&self, version: u32) -> bool {
        self.weights.read().await.is_some() && self.version.load(Ordering::Acquire) == version
    }

    /// Failure of the last request; `None` while the server answers.
    #[must_use]
    pub fn gave_up(&self) -> Option<ServerFailure> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn sample<T>(
        &self,
        tokens: &[u32],
        params: Value,
        prompt_log_probs: bool,
        read: impl Fn(wire::SampleResponse) -> Result<T, String>,
    ) -> Result<(T, u32), PolicyError> {
        // Both are released if the caller drops this future.
        let _slot = self.request_slots.acquire().await;
        let weights = self.weights.read().await;
        let mut body = json!({
            "num_samples": 1,
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": tokens }] },
            "sampling_params": params,
            "prompt_logprobs": prompt_log_probs,
            "type": "sample",
        });
        match &*weights {
            Some(path) => body["model_path"] = json!(path),
            None => body["base_model"] = json!(self.client.model()),
        }
        let read = |received: &Received| {
            let message = wire::SampleResponse::decode(&received.bytes[..]);
            read(message.map_err(|error| format!("its result is not that of sampling: {error}"))?)
        };
        let sampled = self.client.computed("/api/v1/asample", &json_body(&body), Repeated::Passing, read).await;
        Ok((self.outcome(sampled)?, self.version.load(Ordering::Acquire)))
    }

    /// Stores the outcome of a request and adds the server's URL to a failure.
    fn outcome<T>(&self, outcome: Result<T, JsonClientError>) -> Result<T, PolicyError> {
        let outcome = outcome.map_err(|error| ServerFailure {
            text: format!("the Tinker server at {}: {error}", self.client.url()),
            may_recover: error.may_recover(),
        });
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = outcome.as_ref().err().cloned();
        outcome.map_err(|failure| PolicyError::Server(failure.text))
    }
}

/// Record of tokens. The server reports no entropies; the negative log-probability of the sampled token is an unbiased
/// estimate and is recorded instead.
fn known(tokens: Vec<u32>, log_probs: Vec<f32>, version: u32) -> Sampled {
    let versions = vec![version; tokens.len()];
    Sampled { entropies: log_probs.iter().map(|log_prob| -log_prob).collect(), tokens, log_probs, versions }
}

/// Checks the tokens of a reply: some, at most the limit, of the vocabulary, with a stop token at most at the end.
fn read_reply(
    response: &wire::SampleResponse,
    request: &GenerateRequest,
    vocabulary: usize,
) -> Result<(Vec<u32>, Vec<f32>, Stop), String> {
    let [sequence] = &response.sequences[..] else {
        return Err(format!("its result has {} replies, not one", response.sequences.len()));
    };
    let tokens = wire::tokens(&sequence.tokens)?;
    let log_probs = wire::floats(sequence.logprobs.as_deref().ok_or("its reply has no log-probabilities")?)?;
    let ends = checked_reply(&tokens, &log_probs, request, vocabulary)?;
    let by_text = request.stop_texts.as_ref().is_some_and(|texts| texts.is_met(&tokens));
    let stop = match (ends, by_text) {
        (true, _) => Stop::Token,
        (false, true) => Stop::Text,
        (false, false) => Stop::Length,
    };
    Ok((tokens, log_probs, stop))
}

impl Policy for TinkerPolicy {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            PolicyError::check_length(request.tokens.len(), self.context)?;
            let sampling = &request.sampling;
            let params = json!({
                "max_tokens": request.max_tokens.min(self.context - request.tokens.len()),
                "seed": request.seed.0 % SEEDS,
                "stop": &request.stop[..],
                "temperature": sampling.temperature,
                "top_k": if sampling.top_k == 0 { -1 } else { i64::from(sampling.top_k) },
                "top_p": sampling.top_p,
            });
            let read = |response: wire::SampleResponse| read_reply(&response, &request, self.vocabulary);
            let ((tokens, log_probs, stop), version) = self.sample(&request.tokens, params, false, read).await?;
            Ok(Generated { sampled: known(tokens, log_probs, version), stop })
        })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async move {
            if request.prefix.is_empty() || request.continuation.is_empty() {
                return Err(PolicyError::CannotScore);
            }
            let all = [&request.prefix[..], &request.continuation[..]].concat();
            PolicyError::check_length(all.len(), self.context)?;
            let wanted = request.continuation.len();
            let read = |response: wire::SampleResponse| {
                let found = response.prompt_logprobs.ok_or("its result has no log-probabilities of the prompt")?;
                let found = wire::floats(&found)?;
                let own = found.len().checked_sub(wanted).and_then(|begin| found.get(begin..));
                let own = own.ok_or("its result has too few log-probabilities of the prompt")?;
                if !are_log_probs(own) {
                    return Err("a log-probability of the prompt is above 0 or not a number".to_owned());
                }
                Ok(own.to_vec())
            };
            let params = json!({ "max_tokens": 1, "temperature": 1.0, "seed": 0 });
            let (log_probs, version) = self.sample(&all, params, true, read).await?;
            Ok(known(request.continuation.to_vec(), log_probs, version))
        })
    }

    fn can_score(&self) -> bool {
        true
    }

    fn release(&self, _conversation: Conversation) {
        // The server manages its caches itself.
    }

    fn context(&self) -> usize {
        self.context
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_policy::Sampling;
    use gymkhana_record::Seed;

    use super::*;

    fn request(max_tokens: usize) -> GenerateRequest {
        GenerateRequest {
            conversation: Conversation { id: 0, place: 0 },
            tokens: Arc::new([1, 2]),
            max_tokens,
            stop: Arc::new([9]),
            stop_texts: None,
            sampling: Sampling::at(1.0),
            seed: Seed(0),
            token_sink: None,
        }
    }

    fn reply(tokens: &[u32], log_probs: &[f32]) -> wire::SampleResponse {
        let sequence = wire::SampledSequence {
            stop_reason: 0,
            tokens: wire::token_bytes(tokens),
            logprobs: Some(log_probs.iter().flat_map(|number| number.to_le_bytes()).collect()),
        };
        wire::SampleResponse { sequences: vec![sequence], prompt_logprobs: None }
    }

    #[test]
    fn replies_end_by_their_last_token_or_the_limit() {
        let read = |tokens: &[u32], log_probs: &[f32]| read_reply(&reply(tokens, log_probs), &request(3), 10);
        assert_eq!(read(&[4, 9], &[-1.0, -0.5]).unwrap(), (vec![4, 9], vec![-1.0, -0.5], Stop::Token));
        assert_eq!(read(&[4, 5, 6], &[-1.0; 3]).unwrap().2, Stop::Length);
        let refused = read(&[10], &[-1.0]).unwrap_err();
        assert!(refused.contains("token 10, and the vocabulary has 10"), "{refused}");
    }
}
