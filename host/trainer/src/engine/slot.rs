//! A slot: one conversation's row in the batch, its cached tokens, and its running request.

use gymkhana_policy::{Conversation, GenerateRequest, Generated, PolicyError, Stop};
use gymkhana_record::{Sampled, Stream};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::blocks::Table;
use super::sampler::{RowSampling, SampledToken};

/// A request that waits for a slot.
pub(crate) struct WaitingRequest {
    /// The request.
    pub request: GenerateRequest,
    /// Receiver of the reply.
    pub reply: oneshot::Sender<Result<Generated, PolicyError>>,
    /// Permit of the queue, released on drop.
    pub _permit: OwnedSemaphorePermit,
}

/// A running request.
pub(super) struct Running {
    waiting: WaitingRequest,
    stream: Stream,
    sampled: Sampled,
    limit: usize,
}

/// One conversation's row in the batch.
#[derive(Default)]
pub(super) struct EngineSlot {
    /// Owner; `None` after a release, when the cache can still serve others as a prefix.
    pub owner: Option<Conversation>,
    /// Tokens of the conversation.
    pub tokens: Vec<u32>,
    /// Blocks of the cached tokens.
    pub table: Table,
    /// Number of tokens whose keys and values are cached.
    pub cached: usize,
    /// Number of leading tokens that were computed in one prefill and are still cached. Computing them in other
    /// portions can change the last bits, so a deterministic engine copies this prefix whole or not at all.
    pub opening: usize,
    /// Running request.
    pub running: Option<Running>,
    /// Engine step of the last use.
    pub used: u64,
    /// Place of the running request in the order in which requests were started.
    pub order: u64,
}

impl EngineSlot {
    /// Starts a request. The cached prefix that it shares stays.
    pub fn start(&mut self, waiting: WaitingRequest, context: usize, now: u64, order: u64) {
        let request = &waiting.request;
        self.owner = Some(request.conversation);
        // The last token is always computed, because its logits give the next token.
        self.cached = shared_prefix(&self.tokens[..self.cached], &request.tokens).min(request.tokens.len() - 1);
        if self.opening >= request.tokens.len() || !request.tokens.starts_with(&self.tokens[..self.opening]) {
            self.opening = 0;
        }
        self.tokens.clear();
        self.tokens.extend_from_slice(&request.tokens);
        (self.used, self.order) = (now, order);
        let limit = request.max_tokens.max(1).min(context - request.tokens.len());
        let stream = request.seed.stream();
        self.running = Some(Running { stream, sampled: Sampled::default(), limit, waiting });
    }

    /// Number of uncached tokens before the next one can be sampled; 0 without a running request.
    pub fn pending(&self) -> usize {
        if self.running.is_some() { self.tokens.len() - self.cached } else { 0 }
    }

    /// Records that `count` more tokens are cached.
    pub fn fill(&mut self, count: usize) {
        if self.cached == 0 {
            self.opening = count;
        }
        self.cached += count;
    }

    /// Sampling settings of the next token. Advances the request's random stream.
    pub fn next_choice(&mut self) -> Option<RowSampling> {
        let running = self.running.as_mut()?;
        Some(RowSampling { sampling: running.waiting.request.sampling, uniform: running.stream.unit() })
    }

    /// Appends a sampled token, and sends the reply if it is complete.
    pub fn accept(&mut self, chosen: SampledToken, version: u32) {
        let Some(running) = self.running.as_mut() else { return };
        self.cached = self.tokens.len();
        self.tokens.push(chosen.token);
        running.sampled.tokens.push(chosen.token);
        running.sampled.log_probs.push(chosen.log_prob);
        running.sampled.entropies.push(chosen.entropy);
        running.sampled.versions.push(version);
        let request = &running.waiting.request;
        if let Some(sink) = &request.token_sink {
            // A closed channel does not stop the generation.
            let _ = sink.send(chosen.token);
        }
        let stop = if request.stop.contains(&chosen.token) {
            Stop::Token
        } else if request.stop_texts.as_ref().is_some_and(|texts| texts.is_met(&running.sampled.tokens)) {
            Stop::Text
        } else if running.sampled.tokens.len() >= running.limit {
            Stop::Length
        } else {
            return;
        };
        if let Some(running) = self.running.take() {
            // The requester may have disconnected; this is not an error.
            let _ = running.waiting.reply.send(Ok(Generated { sampled: running.sampled, stop }));
        }
    }

    /// Stops a request whose requester has disconnected.
    pub fn drop_cancelled(&mut self) {
        if self.running.as_ref().is_some_and(|running| running.waiting.reply.is_closed()) {
            self.running = None;
        }
    }
}

/// Length of the common prefix of two token sequences.
pub(super) fn shared_prefix(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
