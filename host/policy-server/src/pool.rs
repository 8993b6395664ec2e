//! Several servers of one model as one policy: a conversation stays on its server, and leaves one that does not answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gymkhana_chat::{ChatError, ChatFormat};
use gymkhana_net::{Retry, StatusSink};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, ServerFailure,
};
use gymkhana_record::{Sampled, Seed};
use url::Url;

use crate::error::ServerError;
use crate::policy::{ServerPolicy, ServerSettings, TurnFailure};

/// Retries of a request whose turn another server can take.
const RETRIES_BESIDE_OTHERS: u32 = 1;

/// A server of a pool.
#[derive(Debug)]
struct Member {
    server: ServerPolicy,
    /// Whether it failed and gets no requests until it has the current weights again.
    is_drained: AtomicBool,
}

/// Servers of one model, at least one.
///
/// Weights are pushed to one server after another, while the others sample. Tokens have the version of the server that
/// sampled them, and no server gets an older version than it had.
#[derive(Debug)]
pub struct ServerPool {
    members: Vec<Member>,
    on_status: StatusLine,
}

/// Receiver of messages about servers that fail and return.
struct StatusLine(StatusSink);

impl std::fmt::Debug for StatusLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StatusLine")
    }
}

impl ServerPool {
    /// Connects to servers that differ in their URLs, as [`ServerPolicy::connect`] does.
    ///
    /// # Errors
    /// If one of them fails a check.
    pub async fn connect(
        settings: &ServerSettings,
        further: &[Url],
        chat: ChatFormat,
        on_status: impl Fn() -> StatusSink,
    ) -> Result<Self, ServerError> {
        let (mut members, chat) = (vec![], Arc::new(chat));
        for url in [&settings.url].into_iter().chain(further) {
            let mut own = ServerSettings { url: url.clone(), ..settings.clone() };
            if !further.is_empty() {
                let retries = own.policy.retry.retries.min(RETRIES_BESIDE_OTHERS);
                own.policy.retry = Retry { retries, ..own.policy.retry };
            }
            let server = ServerPolicy::connect(own, Arc::clone(&chat), on_status()).await?;
            members.push(Member { server, is_drained: AtomicBool::new(false) });
        }
        Ok(Self { members, on_status: StatusLine(on_status()) })
    }

    /// The servers.
    pub fn servers(&self) -> impl Iterator<Item = &ServerPolicy> {
        self.members.iter().map(|member| &member.server)
    }

    /// Whether every server that gets requests has the weights of this version from this process.
    #[must_use]
    pub fn has_weights(&self, version: u32) -> bool {
        let mut sampling = self.sampling().peekable();
        sampling.peek().is_some() && sampling.all(|member| member.server.has_weights(version))
    }

    /// Servers with these weights that failed in a passing way since the last call: they may have been started again.
    #[must_use]
    pub fn interrupted(&self, version: u32) -> Vec<&ServerPolicy> {
        let interrupted = |server: &&ServerPolicy| server.has_weights(version) && server.take_interruption();
        self.sampling().map(|member| &member.server).filter(interrupted).collect()
    }

    /// Takes back the servers that answer again, without their weights, so that the next push is to them, too.
    pub async fn look_again(&self) {
        for member in self.members.iter().filter(|member| member.is_drained()) {
            if member.server.answers().await {
                member.server.forget_weights();
                member.is_drained.store(false, Ordering::Release);
                (self.on_status.0)(format!(
                    "the policy server at {} answers again, and gets the weights",
                    member.server.url()
                ));
            }
        }
    }

    /// Pushes the weights in a checkpoint's folder to every server that gets requests and lacks them, and compares its
    /// log-probabilities of a text with the expected ones. A server that does not answer gets requests no longer; if none is
    /// left, that is an error.
    ///
    /// # Errors
    /// If a server refuses the weights or computes with others, or no server answers.
    pub async fn push(
        &self,
        folder: &Path,
        version: u32,
        compared: Option<(&ScoreRequest, &[f32])>,
    ) -> Result<(), ServerError> {
        let mut silent = None;
        for member in self.sampling().filter(|member| !member.server.has_weights(version)) {
            let pushed = async {
                member.server.push(folder, version).await?;
                match compared {
                    Some((text, expected)) => member.server.verify(text, expected).await.map(drop),
                    None => Ok(()),
                }
            };
            if let Err(error) = pushed.await {
                member.server.forget_weights();
                if !error.may_recover() || self.members.len() == 1 {
                    return Err(error);
                }
                self.drain(member, &error.to_string());
                silent = Some(error);
            }
        }
        if self.sampling().next().is_some() {
            return Ok(());
        }
        Err(silent.unwrap_or_else(|| self.none_answers()))
    }

    /// Forgets which weights the servers have, as after an outage in which they may have been started again.
    pub fn forget_weights(&self) {
        self.servers().for_each(ServerPolicy::forget_weights);
    }

    /// As [`ServerPolicy::fixed_text`].
    ///
    /// # Errors
    /// If the tokenizer cannot encode it.
    pub fn fixed_text(&self) -> Result<Option<ScoreRequest>, ChatError> {
        self.members[0].server.fixed_text()
    }

    /// A refusal of a server's last request, or the failure of all servers; `None` otherwise.
    #[must_use]
    pub fn gave_up(&self) -> Option<ServerFailure> {
        let failures: Vec<ServerFailure> = self.servers().filter_map(ServerPolicy::gave_up).collect();
        let refusal = failures.iter().find(|failure| !failure.may_recover);
        match (refusal, self.sampling().next()) {
            (Some(refusal), _) => Some(refusal.clone()),
            (None, None) => Some(ServerFailure { text: self.none_answers().to_string(), may_recover: true }),
            (None, Some(_)) if failures.len() == self.members.len() => failures.into_iter().next_back(),
            (None, Some(_)) => None,
        }
    }

    fn none_answers(&self) -> ServerError {
        ServerError::NoneAnswers { count: self.members.len() }
    }

    /// Gives a server no requests until it answers again and has the weights.
    fn drain(&self, member: &Member, why: &str) {
        member.server.forget_weights();
        if !member.is_drained.swap(true, Ordering::AcqRel) {
            let why = why.split("\nhint: ").next().unwrap_or(why);
            let left = self.sampling().count();
            let servers =
                if left == 1 { "one other server samples".to_owned() } else { format!("{left} other servers sample") };
            (self.on_status.0)(format!("{why}; its turns are repeated elsewhere, and {servers}"));
        }
    }

    /// Servers that get requests.
    fn sampling(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_drained())
    }

    /// The servers that get requests, in the order in which a conversation is offered to them.
    fn order(&self, conversation: Conversation) -> Vec<&Member> {
        let place = |index: usize| Seed(conversation.id).child("server").child(index as u64).0;
        let mut order: Vec<(usize, &Member)> = self.members.iter().enumerate().collect();
        order.sort_by_key(|(index, _)| std::cmp::Reverse(place(*index)));
        order.into_iter().map(|(_, member)| member).filter(|member| !member.is_drained()).collect()
    }

    /// The answer of a server; `None` if it did not answer, and another one is asked.
    fn settled<T>(&self, member: &Member, answer: Result<T, TurnFailure>) -> Option<Result<T, PolicyError>> {
        match answer {
            Err(TurnFailure::Server(failure)) if failure.may_recover && self.members.len() > 1 => {
                self.drain(member, &failure.text);
                None
            }
            answer => Some(answer.map_err(PolicyError::from)),
        }
    }

    fn unanswered(&self) -> PolicyError {
        PolicyError::Server(self.none_answers().to_string())
    }
}

impl Member {
    fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Acquire)
    }
}

impl Policy for ServerPool {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            for member in self.order(request.conversation) {
                if let Some(answer) = self.settled(member, member.server.generated(&request).await) {
                    return answer;
                }
            }
            Err(self.unanswered())
        })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async move {
            for member in self.order(Conversation { id: 0, place: 0 }) {
                if let Some(answer) = self.settled(member, member.server.scored_tokens(&request).await) {
                    return answer;
                }
            }
            Err(self.unanswered())
        })
    }

    fn can_score(&self) -> bool {
        self.servers().all(ServerPolicy::can_score)
    }

    fn release(&self, _conversation: Conversation) {
        // The servers manage their prefix caches themselves.
    }

    fn context(&self) -> usize {
        self.servers().map(ServerPolicy::context).min().unwrap_or(0)
    }
}
