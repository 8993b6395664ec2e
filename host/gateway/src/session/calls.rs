//! Calls of the run's tools that a program makes by MCP, performed one after the other.
//!
//! Most programs pass a call of the policy on to the tool. Such a call is found by its function and its arguments and
//! keeps the policy's id, so that the record holds it once. Any other call is the program's own.

use std::convert::Infallible;

use futures::future::BoxFuture;
use gymkhana_record::{Added, AgentCall, Call, Content, Part, Turn};
use tokio::sync::{mpsc, oneshot};

use super::transcript::Transcript;
use super::{AgentSession, SpentLimit};

/// A call that a program makes.
#[derive(Debug)]
pub struct ToolRequest {
    /// The function's name.
    pub name: String,
    /// JSON text of the arguments, an object.
    pub arguments: String,
    /// Receiver of the answer. It is gone if the program has disconnected.
    pub reply: oneshot::Sender<ToolCallAnswer>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallAnswer {
    /// The answer, or the reason of the failure.
    pub content: Content,
    /// Whether the call failed.
    pub failed: bool,
    /// Whether the environment has ended the episode.
    pub done: bool,
}

impl ToolCallAnswer {
    fn refused(reason: String) -> Self {
        Self { content: vec![Part::Text(reason)], failed: true, done: false }
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Performed {
    /// The call was answered.
    Answered {
        /// Entries for the transcript: the call unless it is listed, its answer, and observations.
        turns: Vec<Turn>,
        /// Cost of the call, in its author's unit.
        cost: f64,
        /// Number of the environment's steps so far.
        steps: u32,
        /// What the call added to the episode besides the transcript, for the session's journal.
        added: Option<Box<Added<'static>>>,
        /// The answer.
        answer: ToolCallAnswer,
    },
    /// The call was not performed, and the record does not hold it.
    Refused {
        /// The reason, for the program.
        reason: String,
        /// The limit of the run that refused it, if one did.
        spent: Option<SpentLimit>,
    },
    /// The tools are lost, and the session ends.
    Lost {
        /// The reason, for the program.
        reason: String,
    },
}

/// Performs calls.
pub trait CallPerformer: Send {
    /// Performs a call. `listed` says that the transcript holds it already.
    fn perform(&mut self, call: Call, listed: bool) -> BoxFuture<'_, Performed>;
}

/// The run's tools as a session uses them.
pub struct ProgramTools<'t> {
    /// The calls of the program.
    pub requests: &'t mut mpsc::Receiver<ToolRequest>,
    /// Performs them.
    pub toolbox: &'t mut dyn CallPerformer,
}

/// Performs nothing, for sessions without tools.
pub(super) struct NoTools;

impl CallPerformer for NoTools {
    fn perform(&mut self, _call: Call, _listed: bool) -> BoxFuture<'_, Performed> {
        let reason = "the run has no tools".to_owned();
        Box::pin(async { Performed::Refused { reason, spent: None } })
    }
}

/// Performs calls, one after the other. The toolbox belongs to this future, so that requests are answered meanwhile.
pub(super) async fn perform(
    toolbox: &mut dyn CallPerformer,
    mut begun: mpsc::UnboundedReceiver<(Call, bool)>,
    done: mpsc::UnboundedSender<Performed>,
) -> Infallible {
    while let Some((call, listed)) = begun.recv().await {
        let _ = done.send(toolbox.perform(call, listed).await);
    }
    std::future::pending().await
}

/// A call that is being performed.
struct CurrentCall {
    call: Call,
    listed: bool,
    reply: oneshot::Sender<ToolCallAnswer>,
}

/// The calls of a program: the one that is being performed, and those that were. Further ones wait in the channel.
#[derive(Default)]
pub(super) struct ProgramCalls {
    current: Option<CurrentCall>,
    performed: Vec<AgentCall>,
    begun: u32,
}

impl ProgramCalls {
    /// Whether a call is being performed.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Begins a call, and returns it with whether the transcript holds it already.
    pub(super) fn begin(&mut self, request: ToolRequest, transcript: &mut Transcript) -> (Call, bool) {
        let ToolRequest { name, arguments, reply } = request;
        let pending = transcript.take_pending(&name, &arguments);
        let listed = pending.is_some();
        let id = pending.unwrap_or_else(|| format!("call-{}", self.begun));
        self.begun += 1;
        let call = Call { id, name, arguments };
        self.current = Some(CurrentCall { call: call.clone(), listed, reply });
        (call, listed)
    }

    /// The last call that was performed.
    pub(super) fn last(&self) -> Option<&AgentCall> {
        self.performed.last()
    }

    pub(super) fn into_performed(self) -> Vec<AgentCall> {
        self.performed
    }
}

impl AgentSession<'_> {
    /// Records a call that was performed, and answers it. Returns false if the tools are lost.
    pub(super) async fn performed(&mut self, outcome: Performed) -> bool {
        let Some(CurrentCall { call, listed, reply }) = self.calls.current.take() else { return true };
        match outcome {
            Performed::Answered { turns, cost, steps, added, answer } => {
                let count = turns.len() as u32;
                let begin = self.transcript.perform(&call.id, cost, turns, steps);
                self.calls.performed.push(AgentCall { call, listed, begin, turns: count });
                self.log_call(cost, added.map(|added| *added)).await;
                // A program that has gone has used the tool all the same.
                let _ = reply.send(answer);
            }
            Performed::Refused { reason, spent } => {
                self.counts.refused += 1;
                if let Some(limit) = spent {
                    self.spent.get_or_insert(limit);
                }
                if listed {
                    self.transcript.put_back(call);
                }
                let _ = reply.send(ToolCallAnswer::refused(reason));
            }
            Performed::Lost { reason } => {
                self.counts.refused += 1;
                let _ = reply.send(ToolCallAnswer::refused(reason));
                return false;
            }
        }
        true
    }
}
