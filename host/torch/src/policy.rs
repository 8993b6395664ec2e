//! The policy: samples with the weights that were published last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_engine::message::{
    EngineAnswer, EngineRequest, Generate, GeneratedStop, MessageScorer, MessageTensors, Numbers, TrainingBatch,
};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, ServerFailure, Stop,
    checked_reply,
};
use gymkhana_record::Sampled;
use tokio::sync::Semaphore;

use crate::TorchChild;
use crate::engine::numbers;
use crate::error::TorchError;

/// The model in the processes as a policy.
#[derive(Debug)]
pub struct TorchPolicy {
    child: Arc<TorchChild>,
    request_slots: Semaphore,
    /// Version of the published weights, plus one; 0 before the first publication.
    version: AtomicU32,
    vocabulary: usize,
    context: usize,
}

impl TorchPolicy {
    /// A policy with at most `requests` at once, whose weights are not published yet.
    #[must_use]
    pub fn new(child: Arc<TorchChild>, requests: usize, vocabulary: usize, context: usize) -> Self {
        Self { child, request_slots: Semaphore::new(requests), version: AtomicU32::new(0), vocabulary, context }
    }

    /// Version of the published weights.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.version.load(Ordering::Acquire).checked_sub(1)
    }

    /// Notes that the weights of this version are published.
    pub fn set_version(&self, version: u32) {
        self.version.store(version + 1, Ordering::Release);
    }

    /// Failure of the processes, if they are gone.
    #[must_use]
    pub fn gave_up(&self) -> Option<ServerFailure> {
        self.child.ended().map(|ended| ServerFailure { text: ended.to_string(), may_recover: false })
    }

    async fn reply(&self, request: &GenerateRequest) -> Result<Generated, TorchError> {
        let sampling = &request.sampling;
        let wanted = Generate {
            max_tokens: request.max_tokens.min(self.context - request.tokens.len()),
            stop: request.stop.to_vec(),
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: request.seed.0,
        };
        let tokens = request.tokens.iter().map(|token| i64::from(*token)).collect();
        let tensors = MessageTensors::from([("tokens".to_owned(), Numbers::Integers(tokens))]);
        let found = self.child.ask(DOING, EngineRequest::Generate(wanted), &tensors).await?;
        let wrong = |why: String| TorchError::Refused { doing: DOING, why };
        let (EngineAnswer::Generated(generated), Some(Numbers::Integers(tokens))) =
            (found.answer, found.tensors.get("tokens"))
        else {
            return Err(wrong("its answer has no tokens".to_owned()));
        };
        // A number that cannot be a token is refused with those of another vocabulary.
        let tokens: Vec<u32> = tokens.iter().map(|token| u32::try_from(*token).unwrap_or(u32::MAX)).collect();
        let of = |name| Ok::<_, TorchError>(singles(&numbers(&found.tensors, name, tokens.len())?));
        let (log_probs, entropies) = (of("log_probs")?, of("entropies")?);
        checked_reply(&tokens, &log_probs, request, self.vocabulary).map_err(wrong)?;
        let stop = match generated.stop {
            GeneratedStop::Token => Stop::Token,
            GeneratedStop::Length => Stop::Length,
        };
        let versions = vec![generated.version; tokens.len()];
        let sampled = Sampled { tokens, log_probs, entropies, versions };
        Ok(cut(Generated { sampled, stop }, request))
    }
}

/// Action in errors.
const DOING: &str = "sample tokens";

fn singles(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|number| *number as f32).collect()
}

/// A reply up to the first token that completes a stop text. The processes do not know texts; what they sampled after it is
/// left out.
fn cut(mut reply: Generated, request: &GenerateRequest) -> Generated {
    let Some(texts) = &request.stop_texts else { return reply };
    let tokens = &reply.sampled.tokens;
    if let Some(end) = (1..=tokens.len()).find(|end| texts.is_met(&tokens[..*end])) {
        if end < tokens.len() || reply.stop == Stop::Length {
            reply.stop = Stop::Text;
        }
        let Sampled { tokens, log_probs, entropies, versions } = &mut reply.sampled;
        tokens.truncate(end);
        log_probs.truncate(end);
        entropies.truncate(end);
        versions.truncate(end);
    }
    reply
}

fn failed(error: TorchError) -> PolicyError {
    match error {
        TorchError::Ended(ended) => PolicyError::Gone(ended.to_string()),
        other => PolicyError::Server(other.to_string()),
    }
}

impl Policy for TorchPolicy {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            PolicyError::check_length(request.tokens.len(), self.context)?;
            // Released if the caller drops this future.
            let _slot = self.request_slots.acquire().await;
            self.reply(&request).await.map_err(failed)
        })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async move {
            if request.prefix.is_empty() || request.continuation.is_empty() {
                return Err(PolicyError::CannotScore);
            }
            let (before, count) = (request.prefix.len(), request.continuation.len());
            PolicyError::check_length(before + count, self.context)?;
            let all = request.prefix.iter().chain(&*request.continuation).map(|token| i64::from(*token)).collect();
            let batch = TrainingBatch {
                tokens: all,
                lengths: vec![(before + count) as i64],
                targets: (before..before + count).map(|at| at as i64).collect(),
                counts: vec![count as i64],
            };
            let scorer = MessageScorer::Policy;
            let pass = EngineRequest::Forward { scorer, temperature: 1.0, entropies: true, keep: false };
            let _slot = self.request_slots.acquire().await;
            let found = self.child.ask("score tokens", pass, &batch.into_tensors()).await.map_err(failed)?.tensors;
            let of = |name| numbers(&found, name, count).map(|numbers| singles(&numbers)).map_err(failed);
            Ok(Sampled {
                log_probs: of("log_probs")?,
                entropies: of("entropies")?,
                tokens: request.continuation.to_vec(),
                versions: vec![self.version().unwrap_or(0); count],
            })
        })
    }

    fn can_score(&self) -> bool {
        true
    }

    fn release(&self, _conversation: Conversation) {
        // The processes keep nothing of a conversation between its turns.
    }

    fn context(&self) -> usize {
        self.context
    }
}
