//! The policy: requests of episodes to a server, as many at once as it takes, and none while its weights change.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_chat::ChatFormat;
use gymkhana_net::{ClientError, JsonClient, JsonClientError, RequestPolicy, Secret, StatusSink};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest,
};
use gymkhana_record::{Sampled, Seed};
use serde_json::Value;
use tokio::sync::{RwLock, Semaphore};
use url::Url;

use crate::answer::{Answer, Sound, check_log_probs, sound};
use crate::protocol::Protocol;
use crate::{sglang, text, vllm, weights};

/// What is asked of a server that cannot do what was asked of it.
const NO_TOKENS: &str = "it answers with text and without token ids and log-probabilities, from which nothing can be \
                         learnt; start a vLLM or SGLang server, or set policy.server.protocol = \"openai\" to evaluate \
                         alone";

/// How a server is used.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it is, such as `http://127.0.0.1:8000`.
    pub url: Url,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// What it calls the model.
    pub model: String,
    /// What it is to know us by.
    pub key: Option<Secret>,
    /// How long it may take to answer, and how often it is asked again.
    pub policy: RequestPolicy,
    /// The same while it loads weights.
    pub update: RequestPolicy,
    /// How many requests it has at once.
    pub requests: usize,
    /// How many tokens the run's model has.
    pub vocabulary: usize,
    /// How many tokens of context the run's model has.
    pub context: usize,
}

/// A server that cannot play, with what would help.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No client can be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It does not answer, or refuses.
    #[error("the policy's server at {url} cannot {doing}: {fault}; {fix}")]
    Fault {
        /// Where it is.
        url: Url,
        /// What it was to do.
        doing: &'static str,
        /// What it did instead.
        fault: JsonClientError,
        /// What would help.
        fix: &'static str,
    },
    /// It does not serve the model.
    #[error("the policy's server at {url} has no model `{model}`; set policy.server.model to one of `{served}`")]
    Model {
        /// Where it is.
        url: Url,
        /// What was asked for.
        model: String,
        /// What it has.
        served: String,
    },
    /// It cannot do what a run needs.
    #[error("the policy's server at {url} does not serve: {problem}")]
    Unfit {
        /// Where it is.
        url: Url,
        /// What is wrong, and what would help.
        problem: String,
    },
}

/// A policy that a server plays.
pub struct ServerPolicy {
    api: JsonClient,
    settings: ServerSettings,
    chat: ChatFormat,
    places: Semaphore,
    /// Held by every request; all of it by an update of the weights.
    weights: RwLock<()>,
    version: AtomicU32,
    /// Whether the server was given that version by this process.
    pushed: AtomicBool,
    /// Why the last request came to nothing, if it did.
    gave_up: Mutex<Option<String>>,
    context: usize,
}

impl std::fmt::Debug for ServerPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerPolicy").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl ServerPolicy {
    /// Looks whether the server has the model and, where its protocol promises that, answers with tokens and
    /// log-probabilities. `told` hears when the server is waited for.
    ///
    /// # Errors
    /// If it does not.
    pub async fn connect(settings: ServerSettings, chat: ChatFormat, told: StatusSink) -> Result<Self, ServerError> {
        let url = settings.url.clone();
        let api = JsonClient::new(url.clone(), settings.key.clone(), told)?;
        let models = api.get("/v1/models", &settings.policy, models).await.map_err(|fault| ServerError::Fault {
            url: url.clone(),
            doing: "be reached",
            fault,
            fix: "start it, or correct policy.server.url: it ends before `/v1`",
        })?;
        let Some((_, longest)) = models.iter().find(|(name, _)| *name == settings.model) else {
            let served = models.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join("`, `");
            return Err(ServerError::Model { url, model: settings.model, served });
        };
        let context = longest.unwrap_or(usize::MAX).min(settings.context);
        let policy = Self {
            api,
            chat,
            places: Semaphore::new(settings.requests),
            weights: RwLock::new(()),
            version: AtomicU32::new(0),
            pushed: AtomicBool::new(false),
            gave_up: Mutex::default(),
            context,
            settings,
        };
        if policy.settings.protocol.gives_tokens() {
            policy.try_out().await?;
        }
        Ok(policy)
    }

    /// Asks for one token.
    async fn try_out(&self) -> Result<(), ServerError> {
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
        let url = self.settings.url.clone();
        match self.ask(&request).await {
            Ok(_) => Ok(()),
            Err(Trouble::Fault(fault)) => Err(ServerError::Fault {
                url,
                doing: "continue token ids",
                fault,
                fix: "see what it said, and whether policy.server.protocol is what it speaks",
            }),
            Err(Trouble::Unfit(problem)) => Err(ServerError::Unfit { url, problem }),
        }
    }

    /// Gives the server the weights in a checkpoint's folder, once what it is asked for has been answered. What it samples
    /// from then on is of this version.
    ///
    /// # Errors
    /// If it does not take them; then it must be asked nothing more.
    pub async fn push(&self, folder: &Path, version: u32) -> Result<(), ServerError> {
        let _alone = self.weights.write().await;
        let Self { api, settings, .. } = self;
        weights::push(api, settings.protocol, folder, version, &settings.update).await.map_err(|fault| {
            ServerError::Fault {
                url: settings.url.clone(),
                doing: "load the new weights",
                fault,
                fix: match settings.protocol {
                    Protocol::Vllm => {
                        "start it with VLLM_SERVER_DEV_MODE=1, which opens its update calls, where it can read the run's \
                         folder; then run again with --resume"
                    }
                    Protocol::Sglang | Protocol::Openai => {
                        "start it where it can read the run's folder; then run again with --resume"
                    }
                },
            }
        })?;
        self.version.store(version, Ordering::Release);
        self.pushed.store(true, Ordering::Release);
        Ok(())
    }

    /// Which weights it samples with, by what was pushed last.
    #[must_use]
    pub fn weight_version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Why the last request came to nothing; none while the server answers.
    #[must_use]
    pub fn gave_up(&self) -> Option<String> {
        self.gave_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The version that was pushed last, if any was.
    fn known_version(&self) -> Option<u32> {
        self.pushed.load(Ordering::Acquire).then(|| self.version.load(Ordering::Acquire))
    }

    async fn ask(&self, request: &GenerateRequest) -> Result<Sound, Trouble> {
        let Self { api, settings, chat, .. } = self;
        let policy = &settings.policy;
        let check = |tokens| sound(tokens, request, settings.vocabulary);
        // None is a text alone, which is no fault that would pass.
        let checked = |answer| match answer {
            Answer::Tokens(tokens) => check(tokens).map(Some),
            Answer::TextAlone => Ok(None),
        };
        let answer = match settings.protocol {
            Protocol::Vllm => {
                let read = |answer: &Value| vllm::read_generated(answer, &request.tokens).and_then(checked);
                api.post(vllm::COMPLETIONS, &vllm::generate(request, &settings.model), policy, read).await?
            }
            Protocol::Sglang => {
                let version = self.known_version();
                let read = |answer: &Value| sglang::read_generated(answer, version).and_then(checked);
                api.post(sglang::GENERATE, &sglang::generate(request), policy, read).await?
            }
            Protocol::Openai => {
                let body = text::generate(request, &settings.model, chat).map_err(Trouble::Unfit)?;
                let read = |answer: &Value| text::read_generated(answer, request, chat).and_then(check).map(Some);
                api.post(vllm::COMPLETIONS, &body, policy, read).await?
            }
        };
        answer.ok_or_else(|| Trouble::Unfit(NO_TOKENS.to_owned()))
    }

    async fn scored(&self, request: &ScoreRequest) -> Result<Vec<f32>, Trouble> {
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

    /// Keeps in mind what came of a request, and names the server where it was nothing.
    fn outcome<T>(&self, outcome: Result<T, Trouble>) -> Result<T, PolicyError> {
        let outcome = outcome.map_err(|trouble| {
            let problem = match trouble {
                Trouble::Fault(fault) => fault.to_string(),
                Trouble::Unfit(problem) => problem,
            };
            format!("the policy's server at {}: {problem}", self.settings.url)
        });
        *self.gave_up.lock().unwrap_or_else(PoisonError::into_inner) = outcome.as_ref().err().cloned();
        outcome.map_err(PolicyError::Server)
    }

    /// What is known of tokens: of a distribution's entropy a server says nothing, but its mean is that of what the sampled
    /// tokens' own log-probabilities say, so that stands in its place.
    fn known(&self, tokens: Vec<u32>, log_probs: Vec<f32>) -> Sampled {
        let versions = vec![self.version.load(Ordering::Acquire); tokens.len()];
        Sampled { entropies: log_probs.iter().map(|log_prob| -log_prob).collect(), tokens, log_probs, versions }
    }
}

/// Why there is no reply.
enum Trouble {
    Fault(JsonClientError),
    /// The server cannot do what it was asked, with what would help.
    Unfit(String),
}

impl From<JsonClientError> for Trouble {
    fn from(fault: JsonClientError) -> Self {
        Self::Fault(fault)
    }
}

impl Policy for ServerPolicy {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            // One token more must fit.
            if request.tokens.is_empty() || request.tokens.len() >= self.context {
                return Err(PolicyError::ContextFull { tokens: request.tokens.len(), context: self.context });
            }
            // Both are given back by whoever gives the episode up.
            let _place = self.places.acquire().await;
            let _weights = self.weights.read().await;
            let Sound { tokens, log_probs, stop } = self.outcome(self.ask(&request).await)?;
            Ok(Generated { sampled: self.known(tokens, log_probs), stop })
        })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async move {
            if !self.can_score() || request.prefix.is_empty() || request.continuation.is_empty() {
                return Err(PolicyError::CannotScore);
            }
            let length = request.prefix.len() + request.continuation.len();
            // vLLM samples one token more.
            if length >= self.context {
                return Err(PolicyError::ContextFull { tokens: length, context: self.context });
            }
            let _place = self.places.acquire().await;
            let _weights = self.weights.read().await;
            let log_probs = self.outcome(self.scored(&request).await)?;
            Ok(self.known(request.continuation.to_vec(), log_probs))
        })
    }

    fn can_score(&self) -> bool {
        self.settings.protocol.gives_tokens()
    }

    fn release(&self, _conversation: Conversation) {
        // The server keeps common beginnings by itself.
    }

    fn context(&self) -> usize {
        self.context
    }
}

/// The names of the models that a server has, with the most tokens that it takes, where it says so.
fn models(answer: &Value) -> Result<Vec<(String, Option<usize>)>, String> {
    let data = answer.get("data").and_then(Value::as_array).ok_or("its answer is no list of models")?;
    let model = |model: &Value| {
        let longest = model.get("max_model_len").and_then(Value::as_u64);
        let name = model.get("id").and_then(Value::as_str).ok_or("a model in its list has no `id`")?;
        Ok((name.to_owned(), longest.and_then(|longest| usize::try_from(longest).ok())))
    };
    data.iter().map(model).collect()
}
