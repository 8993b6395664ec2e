//! The journal of sessions: what each turn adds is written before the program gets its answer.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::BoxFuture;
use gymkhana_record::{Added, AddedCall, AddedReply, EpisodeId, EpisodeRecord};

use super::AgentSession;

/// Keeps what a killed process would lose of its open sessions.
pub trait SessionJournal: Send + Sync {
    /// Writes the start of an episode: its record so far. The future completes when it is written: it waits while the
    /// disk is full.
    fn began(&self, episode: &EpisodeRecord) -> BoxFuture<'static, ()>;

    /// Writes what a turn added to an episode, which then survives the end of the process. The future completes when it
    /// is written.
    fn added(&self, episode: EpisodeId, added: &Added<'_>) -> BoxFuture<'static, ()>;

    /// Why nothing can be written now.
    fn problem(&self) -> Option<String>;
}

/// The journal of one session.
#[derive(Clone)]
pub struct SessionLog {
    journal: Arc<dyn SessionJournal>,
    episode: EpisodeId,
}

impl SessionLog {
    /// Begins the session of an episode with this record so far.
    pub async fn begin(journal: Arc<dyn SessionJournal>, episode: &EpisodeRecord) -> Self {
        journal.began(episode).await;
        Self { journal, episode: episode.id }
    }
}

impl AgentSession<'_> {
    /// The same session with a journal.
    #[must_use]
    pub fn logged(mut self, log: Option<SessionLog>) -> Self {
        self.log = log;
        self
    }

    /// Writes the last reply, which is this turn. `delivered` says that a request waits for it. The future completes when
    /// it is written.
    pub(super) fn log_reply(&mut self, turn: usize, delivered: bool) -> BoxFuture<'static, ()> {
        let Some(SessionLog { journal, episode }) = &self.log else { return written() };
        let (turns, policy_turn) = self.transcript.unlogged();
        let Some(policy_turn) = policy_turn else { return written() };
        let graph_turn = self.graph.turn(turn);
        let reply = AddedReply {
            turn: Cow::Borrowed(policy_turn),
            parent: graph_turn.parent,
            given: Cow::Borrowed(&graph_turn.given),
            sampled: Cow::Borrowed(&graph_turn.sampled),
            delivered,
        };
        let turns = Cow::Borrowed(turns);
        journal.added(*episode, &Added { turns, reply: Some(reply), ..Added::default() })
    }

    /// Writes that the program has received a reply only now. The future completes when it is written.
    pub(super) fn log_delivery(&self, turn: usize) -> BoxFuture<'static, ()> {
        match &self.log {
            Some(SessionLog { journal, episode }) if !self.graph.turn(turn).delivered => {
                journal.added(*episode, &Added { delivered: Some(turn as u32), ..Added::default() })
            }
            _ => written(),
        }
    }

    /// Writes the last call, and what it added besides the transcript. The future completes when it is written.
    pub(super) fn log_call(&mut self, cost: f64, added: Option<Added<'static>>) -> BoxFuture<'static, ()> {
        let Some(SessionLog { journal, episode }) = &self.log else { return written() };
        let (turns, _) = self.transcript.unlogged();
        let call = self.calls.last().cloned().map(|call| AddedCall { call, cost });
        journal.added(*episode, &Added { turns: Cow::Borrowed(turns), call, ..added.unwrap_or_default() })
    }
}

/// Nothing is left to write.
fn written() -> BoxFuture<'static, ()> {
    Box::pin(std::future::ready(()))
}
