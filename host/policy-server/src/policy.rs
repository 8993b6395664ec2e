//! Policy on an inference server: limits concurrent requests and blocks them during weight updates.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_chat::{ChatError, ChatFormat};
use gymkhana_net::{JsonClient, JsonClientError, RequestPolicy, Retry, Secret, StatusSink};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest, ServerFailure,
};
use gymkhana_record::{Sampled, Seed};
use gymkhana_waits::Counterpart;
use serde_json::Value;
use tokio::sync::{RwLock, Semaphore};
use url::Url;

use crate::Protocol;
use crate::answer::{SamplingResponse, ValidReply, check_log_probs, validate};
use crate::error::ServerError;
use crate::models::list_models;
use crate::{sglang, text, vllm, weights};

/// Problem of a server without token ids.
const NO_TOKENS: &str = "its answers contain text without token ids and log-probabilities, which training needs\nhint: \
                         start a vLLM or SGLang server, or set policy.server.protocol = \"openai\" for evaluation only";

/// Text whose log-probabilities are compared after a weight update.
const FIXED_TEXT: &str = "The quick brown fox jumps over the lazy dog. 12 + 30 = 42, and 7 * 6 = 42.";

/// Models of a server that an error names, and characters of each name.
const MAX_NAMED: usize = 20;
const MAX_NAME: usize = 100;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// URL, such as `http://127.0.0.1:8000`.
    pub url: Url,
    /// Protocol.
    pub protocol: Protocol,
    /// Name of the model on the server.
    pub model: String,
    /// Bearer token.
    pub key: Option<Secret>,
    /// Timeout and retries of requests.
    pub policy: RequestPolicy,
    /// Timeout and retries of weight updates.
    pub update: RequestPolicy,
    /// Maximum number of concurrent requests.
    pub requests: usize,
    /// Size of the vocabulary of the run's model.
    pub vocabulary: usize,
    /// Context length of the run's model, in tokens.
    pub context: usize,
    /// Maximum mean difference from the trainer's log-probabilities after a weight update, in nats.
    pub max_divergence: f64,
}

/// Policy on an inference server.
pub struct ServerPolicy {
    api: JsonClient,
    settings: ServerSettings,
    chat: Arc<ChatFormat>,
    request_slots: Semaphore,
    /// Locked for reading by every request and for writing by a weight update.
    weights: RwLock<()>,
    version: AtomicU32,
    /// Whether this process pushed that version.
    pushed: AtomicBool,
    /// Failure of the last request, if it failed.
    last_failure: Mutex<Option<ServerFailure>>,
    context: usize,
    /// Folder or name of the model that the server was started with, if it reports it.
    started_with: Option<String>,
}

impl std::fmt::Debug for ServerPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerPolicy").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl ServerPolicy {
    /// Connects to a server and checks that it has the model and, if the protocol declares it, answers with tokens and
    /// log-probabilities. `on_status` receives status messages.
    ///
    /// # Errors
    /// If a check fails.
    pub async fn connect(
        settings: ServerSettings,
        chat: impl Into<Arc<ChatFormat>>,
        on_status: StatusSink,
    ) -> Result<Self, ServerError> {
        let url = settings.url.clone();
        let api = JsonClient::new(url.clone(), settings.key.clone(), Counterpart::PolicyServer, on_status)?;
        let models = list_models(&api, &url, &settings.policy).await?;
        let Some(model) = models.iter().find(|model| model.name == settings.model) else {
            let names = models.iter().take(MAX_NAMED).map(|model| model.name.chars().take(MAX_NAME).collect());
            let served = names.collect::<Vec<String>>().join("`, `");
            return Err(ServerError::Model { url, model: settings.model, served });
        };
        let context = model.context.unwrap_or(usize::MAX).min(settings.context);
        let policy = Self {
            api,
            chat: chat.into(),
            request_slots: Semaphore::new(settings.requests),
            weights: RwLock::new(()),
            version: AtomicU32::new(0),
            pushed: AtomicBool::new(false),
            last_failure: Mutex::default(),
            context,
            started_with: model.root.clone(),
            settings,
        };
        if policy.settings.protocol.gives_tokens() {
            policy.probe().await?;
        }
        Ok(policy)
    }

    /// Requests one token as a test.
    async fn probe(&self) -> Result<(), ServerError> {
        let request = GenerateRequest {
            conversation: Conversation { id: 0, place: 0 },
            tokens: Arc::new([0]),
            max_tokens: 1,
            stop: Arc::new([]),
            stop_texts: None,
            sampling: Sampling::at(1.0),
            seed: Seed(0),
            token_sink: None,
        };
        let fix = "check its answer and policy.server.protocol";
        self.ask(&request).await.map(drop).map_err(|error| self.failed("continue token ids", error, fix))
    }

    /// Error for a request of the host's own.
    fn failed(&self, doing: &'static str, error: RequestError, fix: &'static str) -> ServerError {
        let url = self.settings.url.clone();
        match error {
            RequestError::Fault(fault) => ServerError::Fault { url, doing, fault, fix },
            RequestError::Unfit(problem) => ServerError::Unfit { url, problem },
        }
    }

    /// Pushes the weights in a checkpoint's folder to the server, after all requests in progress. Tokens sampled afterwards
    /// have this version.
    ///
    /// # Errors
    /// If the server does not load them; it must not be used afterwards.
    pub async fn push(&self, folder: &Path, version: u32) -> Result<(), ServerError> {
        let _exclusive = self.weights.write().await;
        let Self { api, settings, .. } = self;
        weights::push(api, settings.protocol, folder, version, &settings.update).await.map_err(|fault| {
            ServerError::Fault {
                url: settings.url.clone(),
                doing: "load the new weights",
                fault,
                fix: match settings.protocol {
                    Protocol::Vllm => {
                        "start it with VLLM_SERVER_DEV_MODE=1, which opens its update calls, where it can read the run's \
                         folder; then run again, with --resume if the run has begun"
                    }
                    Protocol::Sglang | Protocol::Openai => {
                        "start it where it can read the run's folder; then run again, with --resume if the run has begun"
                    }
                },
            }
        })?;
        self.version.store(version, Ordering::Release);
        self.pushed.store(true, Ordering::Release);
        Ok(())
    }

    /// A fixed text to compare log-probabilities by; `None` if the context is too short for one.
    ///
    /// # Errors
    /// If the tokenizer cannot encode it.
    pub fn fixed_text(&self) -> Result<Option<ScoreRequest>, ChatError> {
        let mut tokens = self.chat.encode_raw(FIXED_TEXT)?;
        // vLLM samples one more token.
        tokens.truncate(self.context.saturating_sub(1));
        Ok(match tokens.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                Some(ScoreRequest { prefix: Arc::new([*first]), continuation: rest.into() })
            }
            _ => None,
        })
    }

    /// Checks that the server computes with the weights pushed last: compares its log-probabilities of a text with
    /// `expected`, those of the trainer's own weights. Returns the mean absolute difference in nats.
    ///
    /// # Errors
    /// If the server cannot score the text, or the difference exceeds the settings' maximum; it must not be used
    /// afterwards.
    pub async fn verify(&self, text: &ScoreRequest, expected: &[f32]) -> Result<f64, ServerError> {
        let found = {
            let _slot = self.request_slots.acquire().await;
            let _weights = self.weights.read().await;
            self.scored(text).await
        };
        let fix = "check its log, then run again, with --resume if the run has begun";
        let found = found.map_err(|error| self.failed("score a text", error, fix))?;
        let (difference, limit) = (mean_difference(&found, expected), self.settings.max_divergence);
        // A difference that is not a number exceeds every maximum.
        if difference <= limit {
            return Ok(difference);
        }
        let cause = match self.settings.protocol {
            Protocol::Vllm => {
                "vLLM may have kept the output layer of a model with tied embeddings\nhint: start vLLM with a copy from \
                 `host export`, then run again, with --resume if the run has begun; for a server in 16 bits set \
                 a larger policy.server.max_divergence in a new run"
            }
            Protocol::Sglang | Protocol::Openai => {
                "the server may have loaded only a part of the weights\nhint: start it with the model of \
                 policy.checkpoint, then run again, with --resume if the run has begun; for a server in 16 bits \
                 set a larger policy.server.max_divergence in a new run"
            }
        };
        let (url, version) = (self.settings.url.clone(), self.weight_version());
        Err(ServerError::Divergence { url, version, difference, limit, cause })
    }

    /// Folder or name of the model that the server was started with, if it reports it.
    #[must_use]
    pub fn started_with(&self) -> Option<&str> {
        self.started_with.as_deref()
    }

    /// Whether this process pushed the weights of this version last.
    #[must_use]
    pub fn has_weights(&self, version: u32) -> bool {
        self.known_version() == Some(version)
    }

    /// Version of the weights that were pushed last.
    #[must_use]
    pub fn weight_version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Failure of the last request; `None` while the server answers.
    #[must_use]
    pub fn gave_up(&self) -> Option<ServerFailure> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether an attempt failed in a passing way since the last call of this method.
    pub fn take_interruption(&self) -> bool {
        self.api.take_interruption()
    }

    /// Forgets which weights the server has, as after an outage in which it may have been started again.
    pub fn forget_weights(&self) {
        self.pushed.store(false, Ordering::Release);
    }

    /// Version that this process pushed last, if any.
    fn known_version(&self) -> Option<u32> {
        self.pushed.load(Ordering::Acquire).then(|| self.version.load(Ordering::Acquire))
    }

    async fn ask(&self, request: &GenerateRequest) -> Result<ValidReply, RequestError> {
        let Self { api, settings, chat, .. } = self;
        let (policy, session) = (&settings.policy, request.conversation.id.to_string());
        let check = |tokens| validate(tokens, request, settings.vocabulary);
        // `None` is a text without tokens, which is a permanent fault.
        let checked = |answer| match answer {
            SamplingResponse::Tokens(tokens) => check(tokens).map(Some),
            SamplingResponse::TextOnly => Ok(None),
        };
        let answer = match settings.protocol {
            Protocol::Vllm => {
                let read = |answer: &Value| vllm::read_generated(answer, &request.tokens).and_then(checked);
                api.post_in(&session, vllm::COMPLETIONS, &vllm::generate(request, &settings.model), policy, read)
                    .await?
            }
            Protocol::Sglang => {
                let version = self.known_version();
                let read = |answer: &Value| sglang::read_generated(answer, version).and_then(checked);
                api.post_in(&session, sglang::GENERATE, &sglang::generate(request), policy, read).await?
            }
            Protocol::Openai => {
                let body = text::generate(request, &settings.model, chat).map_err(RequestError::Unfit)?;
                let read = |answer: &Value| text::read_generated(answer, request, chat).and_then(check).map(Some);
                api.post_in(&session, vllm::COMPLETIONS, &body, policy, read).await?
            }
        };
        answer.ok_or_else(|| RequestError::Unfit(NO_TOKENS.to_owned()))
    }

    async fn scored(&self, request: &ScoreRequest) -> Result<Vec<f32>, RequestError> {
        let Self { api, settings, .. } = self;
        let checked = |mut log_probs: Vec<f32>| {
            check_log_probs(&mut log_probs, request.continuation.len())?;
            Ok(log_probs)
        };
        let policy = &settings.policy;
        Ok(match settings.protocol {
            Protocol::Sglang => {
                let read = |answer: &Value| sglang::read_scored(answer, request).and_then(checked);
                api.post(sglang::GENERATE, &sglang::score(request), policy, read).await?
            }
            Protocol::Vllm | Protocol::Openai => {
                let read = |answer: &Value| vllm::read_scored(answer, request).and_then(checked);
                api.post(vllm::COMPLETIONS, &vllm::score(request, &settings.model), policy, read).await?
            }
        })
    }

    /// Continues a conversation.
    pub(crate) async fn generated(&self, request: &GenerateRequest) -> Result<Generated, TurnFailure> {
        PolicyError::check_length(request.tokens.len(), self.context)?;
        // Both are released if the caller drops this future.
        let _slot = self.request_slots.acquire().await;
        let _weights = self.weights.read().await;
        let ValidReply { tokens, log_probs, stop } = self.outcome(self.ask(request).await)?;
        Ok(Generated { sampled: self.known(tokens, log_probs), stop })
    }

    /// Scores a continuation.
    pub(crate) async fn scored_tokens(&self, request: &ScoreRequest) -> Result<Sampled, TurnFailure> {
        if !self.can_score() || request.prefix.is_empty() || request.continuation.is_empty() {
            return Err(PolicyError::CannotScore.into());
        }
        // vLLM samples one more token.
        PolicyError::check_length(request.prefix.len() + request.continuation.len(), self.context)?;
        let _slot = self.request_slots.acquire().await;
        let _weights = self.weights.read().await;
        let log_probs = self.outcome(self.scored(request).await)?;
        Ok(self.known(request.continuation.to_vec(), log_probs))
    }

    /// URL of the server.
    pub(crate) fn url(&self) -> &Url {
        &self.settings.url
    }

    /// Whether the server answers now.
    pub(crate) async fn answers(&self) -> bool {
        let policy =
            RequestPolicy { retry: Retry { retries: 0, ..self.settings.policy.retry }, ..self.settings.policy };
        list_models(&self.api, &self.settings.url, &policy).await.is_ok()
    }

    /// Stores the outcome of a request and adds the server's URL to a failure.
    fn outcome<T>(&self, outcome: Result<T, RequestError>) -> Result<T, TurnFailure> {
        let outcome = outcome.map_err(|error| {
            let (problem, may_recover) = match error {
                RequestError::Fault(fault) => (fault.to_string(), fault.may_recover()),
                RequestError::Unfit(problem) => (problem, false),
            };
            ServerFailure { text: format!("the policy server at {}: {problem}", self.settings.url), may_recover }
        });
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = outcome.as_ref().err().cloned();
        outcome.map_err(TurnFailure::Server)
    }

    /// Creates the record of tokens. A server does not report entropies; the negative log-probability of the sampled token
    /// is an unbiased estimate and is recorded instead.
    fn known(&self, tokens: Vec<u32>, log_probs: Vec<f32>) -> Sampled {
        let versions = vec![self.version.load(Ordering::Acquire); tokens.len()];
        Sampled { entropies: log_probs.iter().map(|log_prob| -log_prob).collect(), tokens, log_probs, versions }
    }
}

/// Failure of a request.
enum RequestError {
    Fault(JsonClientError),
    /// The server lacks a feature; the problem with a hint.
    Unfit(String),
}

impl From<JsonClientError> for RequestError {
    fn from(fault: JsonClientError) -> Self {
        Self::Fault(fault)
    }
}

impl Policy for ServerPolicy {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move { Ok(self.generated(&request).await?) })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async move { Ok(self.scored_tokens(&request).await?) })
    }

    fn can_score(&self) -> bool {
        self.settings.protocol.gives_tokens()
    }

    fn release(&self, _conversation: Conversation) {
        // The server manages its prefix cache itself.
    }

    fn context(&self) -> usize {
        self.context
    }
}

/// Failure of a policy's request: of the request itself, or of the server.
pub(crate) enum TurnFailure {
    Request(PolicyError),
    Server(ServerFailure),
}

impl From<PolicyError> for TurnFailure {
    fn from(error: PolicyError) -> Self {
        Self::Request(error)
    }
}

impl From<TurnFailure> for PolicyError {
    fn from(failure: TurnFailure) -> Self {
        match failure {
            TurnFailure::Request(error) => error,
            TurnFailure::Server(failure) => Self::Server(failure.text),
        }
    }
}

/// Mean absolute difference of two lists of log-probabilities, in nats.
fn mean_difference(found: &[f32], expected: &[f32]) -> f64 {
    let differences =
        found.iter().zip(expected).map(|(found, expected)| (f64::from(*found) - f64::from(*expected)).abs());
    differences.sum::<f64>() / expected.len().max(1) as f64
}
