//! A slot: one conversation's place in the batch, what is cached of it, and the request that runs in it.

use gymkhana_policy::{Conversation, GenerateRequest, Generated, PolicyError, Stop};
use gymkhana_record::{Sampled, Stream};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::sampler::{RowSampling, SampledToken};

/// A request that waits for a slot.
pub(crate) struct Waiting {
    /// What is asked.
    pub request: GenerateRequest,
    /// Where the reply goes.
    pub reply: oneshot::Sender<Result<Generated, PolicyError>>,
    /// A place in the queue, given back when this is dropped.
    pub _permit: OwnedSemaphorePermit,
}

/// A request that runs.
pub(super) struct Running {
    waiting: Waiting,
    stream: Stream,
    sampled: Sampled,
    limit: usize,
}

/// One conversation's place.
#[derive(Default)]
pub(super) struct Slot {
    /// Owner; `None` after a release, when the cache may still serve others as a prefix.
    pub owner: Option<Conversation>,
    /// The conversation's tokens.
    pub tokens: Vec<u32>,
    /// How many of them have their keys and values in the cache.
    pub cached: usize,
    /// How many tokens from the first on were computed in one go, and still stand in the cache as they were. What is
    /// computed in other portions may differ in its last bits: a deterministic engine copies this as a whole or not at
    /// all.
    pub opening: usize,
    /// What runs.
    pub running: Option<Running>,
    /// When it was last used, by the engine's count.
    pub used: u64,
}

impl Slot {
    /// Begins to answer a request. What is cached of its beginning stays.
    pub fn start(&mut self, waiting: Waiting, context: usize, now: u64) {
        let request = &waiting.request;
        self.owner = Some(request.conversation);
        // The last token is always fed, as its logits choose the next.
        self.cached = shared_prefix(&self.tokens[..self.cached], &request.tokens).min(request.tokens.len() - 1);
        if self.opening >= request.tokens.len() || !request.tokens.starts_with(&self.tokens[..self.opening]) {
            self.opening = 0;
        }
        self.tokens.clear();
        self.tokens.extend_from_slice(&request.tokens);
        self.used = now;
        let limit = request.max_tokens.max(1).min(context - request.tokens.len());
        let stream = request.seed.stream();
        self.running = Some(Running { stream, sampled: Sampled::default(), limit, waiting });
    }

    /// How many tokens must be fed before the next one can be chosen; 0 when nothing runs.
    pub fn pending(&self) -> usize {
        if self.running.is_some() { self.tokens.len() - self.cached } else { 0 }
    }

    /// Records that `count` more tokens are in the cache.
    pub fn fill(&mut self, count: usize) {
        if self.cached == 0 {
            self.opening = count;
        }
        self.cached += count;
    }

    /// How the next token is chosen. Takes a number from the request's stream.
    pub fn next_choice(&mut self) -> Option<RowSampling> {
        let running = self.running.as_mut()?;
        Some(RowSampling { sampling: running.waiting.request.sampling, uniform: running.stream.unit() })
    }

    /// Takes the token that was chosen, and sends the reply if it is complete.
    pub fn accept(&mut self, chosen: SampledToken, version: u32) {
        let Some(running) = self.running.as_mut() else { return };
        self.cached = self.tokens.len();
        self.tokens.push(chosen.token);
        running.sampled.tokens.push(chosen.token);
        running.sampled.log_probs.push(chosen.log_prob);
        running.sampled.entropies.push(chosen.entropy);
        running.sampled.versions.push(version);
        let request = &running.waiting.request;
        if let Some(listener) = &request.token_sink {
            // Who has stopped listening still gets the reply.
            let _ = listener.send(chosen.token);
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
            // The requester may have gone; this is not an error.
            let _ = running.waiting.reply.send(Ok(Generated { sampled: running.sampled, stop }));
        }
    }

    /// Stops a request whose requester has gone.
    pub fn drop_cancelled(&mut self) {
        if self.running.as_ref().is_some_and(|running| running.waiting.reply.is_closed()) {
            self.running = None;
        }
    }
}

/// How many tokens two sequences begin with in common.
pub(super) fn shared_prefix(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
