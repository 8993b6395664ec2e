//! Settings and limits of a session, and what its sessions share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_chat::{Begun, ChatFormat, StopTexts};
use gymkhana_policy::{Conversation, Sampling, StopCondition};
use gymkhana_record::Seed;

use crate::dialect::{ApiError, ErrorClass, ReplyRequest, RequestedSampling};

/// Lists of stop texts that are kept ready.
const STOP_LISTS: usize = 16;

/// Who decides about sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SamplingRule {
    /// The owner: settings of the request are ignored, as training needs the distribution that it corrects for.
    Fixed(Sampling),
    /// The request, with the owner's settings for what it leaves open.
    Requested(Sampling),
}

impl SamplingRule {
    pub(crate) fn for_request(self, wanted: RequestedSampling) -> Result<Sampling, ApiError> {
        let (default, wanted) = match self {
            Self::Fixed(sampling) => return Ok(sampling),
            Self::Requested(default) => (default, wanted),
        };
        let sampling = Sampling {
            temperature: wanted.temperature.unwrap_or(default.temperature),
            top_p: wanted.top_p.unwrap_or(default.top_p),
            top_k: wanted.top_k.unwrap_or(default.top_k),
            min_p: default.min_p,
        };
        sampling.check().map_err(|error| ApiError::field(error.key, format!("must be {}", error.expected)))
    }
}

/// Limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentSessionLimits {
    /// Generations, side requests included.
    pub turns: u32,
    /// Tokens of a context: prompt and reply together.
    pub context_tokens: usize,
    /// Tokens of a reply.
    pub reply_tokens: usize,
    /// Tokens of a reply's thoughts; none for no limit of their own.
    pub reasoning_tokens: Option<usize>,
    /// Bytes of all messages that the record holds.
    pub bytes: u64,
    /// The program's own time.
    pub program_time: Duration,
    /// Time of the session, waits for the policy included.
    pub episode_time: Duration,
}

/// The source of conversations' ids.
#[derive(Debug, Clone)]
pub struct ConversationIds {
    next: Arc<AtomicU64>,
    place: u32,
}

impl ConversationIds {
    /// Ids from a shared counter, for an episode at this place.
    #[must_use]
    pub fn new(next: Arc<AtomicU64>, place: u32) -> Self {
        Self { next, place }
    }

    /// A new conversation.
    pub(crate) fn next(&self) -> Conversation {
        Conversation { id: self.next.fetch_add(1, Ordering::Relaxed), place: self.place }
    }
}

/// Stop conditions of requests. Each holds a copy of the tokenizer, so that sessions share them.
#[derive(Debug, Default)]
pub struct StopCache {
    ready: Mutex<HashMap<Vec<String>, Arc<dyn StopCondition>>>,
}

impl StopCache {
    fn get(&self, texts: &[String], chat: &ChatFormat) -> Option<Arc<dyn StopCondition>> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ready.get(texts) {
            return Some(Arc::clone(known));
        }
        let made: Arc<dyn StopCondition> = Arc::new(StopTexts::new(texts, chat)?);
        if ready.len() >= STOP_LISTS {
            ready.clear();
        }
        ready.insert(texts.to_vec(), Arc::clone(&made));
        Some(made)
    }
}

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Who decides about sampling.
    pub sampling: SamplingRule,
    /// Root of the seeds of all replies.
    pub seed: Seed,
    /// The limits.
    pub limits: AgentSessionLimits,
    /// Names by which a program may ask for the policy; the first is its own. Empty for any name.
    pub models: Vec<String>,
    /// Names of models whose requests are not turns, such as a program's model for titles.
    pub side_models: Vec<String>,
    /// Time after an answer in which the same body is a repeat.
    pub retry_window: Duration,
    /// Texts that end every reply.
    pub stop_texts: Vec<String>,
    /// Ready stop conditions.
    pub stop_cache: Arc<StopCache>,
    /// The source of conversations' ids.
    pub conversations: ConversationIds,
}

impl SessionSettings {
    /// Whether a request is a turn. One token is a program's probe of the connection.
    ///
    /// # Errors
    /// If there is no model of this name.
    pub(crate) fn is_turn(&self, request: &ReplyRequest) -> Result<bool, ApiError> {
        if self.side_models.contains(&request.model) {
            return Ok(false);
        }
        if !self.models.is_empty() && !self.models.contains(&request.model) {
            let known: Vec<&str> = self.models.iter().chain(&self.side_models).map(String::as_str).collect();
            let message = format!(
                "there is no model `{}`; known: {}\nhint: use the name in the variable OPENAI_MODEL, or add the name to \
                 `agent.models`",
                request.model,
                known.join(", ")
            );
            return Err(ApiError::new(ErrorClass::NotFound, message));
        }
        Ok(request.max_tokens != Some(1))
    }

    /// The texts that end the reply to a request, and the request's own first.
    pub(crate) fn stops<'t>(&'t self, requested: &'t [String]) -> impl Iterator<Item = &'t String> {
        requested.iter().chain(&self.stop_texts)
    }

    /// The condition that ends the reply to a request besides its stop tokens. `begun` tells whether the prompt has opened
    /// a thought.
    pub(crate) fn stop_condition(
        &self,
        requested: &[String],
        chat: &ChatFormat,
        begun: Begun,
    ) -> Option<Arc<dyn StopCondition>> {
        let texts: Vec<String> = self.stops(requested).cloned().collect();
        let texts = if texts.is_empty() { None } else { self.stop_cache.get(&texts, chat) };
        match self.limits.reasoning_tokens {
            Some(limit) => chat.thought_limit(limit, begun, texts),
            None => texts,
        }
    }
}
