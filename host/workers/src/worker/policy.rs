//! The policy of a seat at a worker: every request is a call to the trainer's model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest};
use gymkhana_record::Sampled;
use gymkhana_sandbox::run_on;
use gymkhana_waits::{Counterpart, within};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::ends::{Ends, end};
use crate::messages::{PolicyAnswer, PolicyCall, PolicyRequest, decode, encode};
use crate::reply::{OwnerConnection, SendOutcome};
use crate::signature::Signer;
use crate::signed::encode_signed;

/// Time after which a call is repeated. The trainer answers a repeated call once.
const REPEAT: Duration = Duration::from_secs(5);
/// Time between two tries while the trainer or the bus is away.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Time in which a release is repeated until the trainer has acknowledged it.
const RELEASED: Duration = Duration::from_secs(600);

/// What all policies of a worker's session share.
pub(crate) struct Caller {
    pub owner: Arc<OwnerConnection>,
    /// Signs calls.
    pub signer: Signer,
    pub subject: String,
    pub worker: String,
    /// Runtime with sockets; episodes run on threads without.
    pub host: Handle,
    pub next: AtomicU64,
}

/// The policy of a seat for one delivery of a job.
pub(crate) struct BusPolicy {
    pub caller: Arc<Caller>,
    pub job: u64,
    pub delivery: u64,
    pub seat: u32,
    pub context: usize,
    pub can_score: bool,
    /// Told when the trainer does not want the job any longer.
    pub ends: Arc<watch::Sender<Option<Ends>>>,
}

impl BusPolicy {
    fn message(&self, request: PolicyRequest) -> Result<Bytes, PolicyError> {
        let call = PolicyCall {
            worker: self.caller.worker.clone(),
            job: self.job,
            delivery: self.delivery,
            call: self.caller.next.fetch_add(1, Ordering::Relaxed),
            seat: self.seat,
            request,
        };
        let unwritten =
            |error: &dyn std::fmt::Display| PolicyError::Server(format!("a policy call cannot be written: {error}"));
        let call = encode(&call).map_err(|error| unwritten(&error))?;
        encode_signed(&self.caller.subject, &(), &call, &self.caller.signer).map_err(|error| unwritten(&error))
    }

    /// Calls until the trainer answers; never ends if the job is not wanted.
    fn call(&self, request: PolicyRequest) -> PolicyFuture<'_, PolicyAnswer> {
        let message = self.message(request);
        let (caller, ends) = (Arc::clone(&self.caller), Arc::clone(&self.ends));
        Box::pin(async move {
            let message = message?;
            let host = caller.host.clone();
            match run_on(&host, async move { answer(&caller, message).await }).await? {
                PolicyAnswer::Failed(error) => Err(error),
                PolicyAnswer::Settled => end(&ends, Ends::Settled).await,
                PolicyAnswer::Superseded => end(&ends, Ends::Superseded).await,
                PolicyAnswer::Refused(refusal) => end(&ends, Ends::Refused(refusal)).await,
                answer => Ok(answer),
            }
        })
    }
}

/// The trainer's answer to a call.
async fn answer(caller: &Caller, message: Bytes) -> Result<PolicyAnswer, PolicyError> {
    loop {
        match caller.owner.ask(caller.subject.clone(), message.clone(), REPEAT).await {
            SendOutcome::Answered(answer) => {
                let malformed = |error| PolicyError::Server(format!("the trainer's answer is malformed: {error}"));
                return decode(&answer).map_err(malformed);
            }
            SendOutcome::Silent => {}
            SendOutcome::TooLarge => {
                let why = "a prompt is larger than a message of the bus\nhint: raise max_payload of nats-server";
                return Err(PolicyError::Server(why.to_owned()));
            }
            SendOutcome::Unreachable => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}

fn unexpected() -> PolicyError {
    PolicyError::Server("the trainer's answer is that of another call".to_owned())
}

impl Policy for BusPolicy {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let asked = PolicyRequest::Generate {
            conversation: request.conversation.id,
            place: request.conversation.place,
            tokens: request.tokens.to_vec(),
            max_tokens: request.max_tokens as u64,
            stop: request.stop.to_vec(),
            stop_texts: request.stop_texts.map(|texts| texts.texts().to_vec()).unwrap_or_default(),
            sampling: request.sampling,
            seed: request.seed,
        };
        let answer = self.call(asked);
        Box::pin(async move {
            match answer.await? {
                PolicyAnswer::Generated(generated) => Ok(generated),
                _ => Err(unexpected()),
            }
        })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        let asked =
            PolicyRequest::Score { prefix: request.prefix.to_vec(), continuation: request.continuation.to_vec() };
        let answer = self.call(asked);
        Box::pin(async move {
            match answer.await? {
                PolicyAnswer::Scored(scored) => Ok(scored),
                _ => Err(unexpected()),
            }
        })
    }

    fn can_score(&self) -> bool {
        self.can_score
    }

    fn release(&self, conversation: Conversation) {
        let asked = PolicyRequest::Release { conversation: conversation.id };
        // The trainer also releases all conversations of a job that ends.
        let Ok(message) = self.message(asked) else { return };
        let caller = Arc::clone(&self.caller);
        self.caller.host.spawn(async move {
            let _ = within(Counterpart::Owner, RELEASED, answer(&caller, message)).await;
        });
    }

    fn context(&self) -> usize {
        self.context
    }
}
