//! The journal of sessions: what each turn adds is written before the program gets its answer.

use std::borrow::Cow;
use std::sync::Arc;

use gymkhana_record::{Added, AddedCall, AddedReply, EpisodeId, EpisodeRecord};

use super::Session;

/// Keeps what a killed process would lose of its open sessions.
pub trait SessionJournal: Send + Sync {
    /// Writes the start of an episode: its record so far.
    fn began(&self, episode: &EpisodeRecord);

    /// Writes what a turn added to an episode, which then survives the end of the process.
    fn added(&self, episode: EpisodeId, added: &Added<'_>);
}

/// The journal of one session.
#[derive(Clone)]
pub struct SessionLog {
    journal: Arc<dyn SessionJournal>,
    episode: EpisodeId,
}

impl SessionLog {
    /// Begins the session of an episode with this record so far.
    #[must_use]
    pub fn begin(journal: Arc<dyn SessionJournal>, episode: &EpisodeRecord) -> Self {
        journal.began(episode);
        Self { journal, episode: episode.id }
    }
}

impl Session<'_> {
    /// The same session with a journal.
    #[must_use]
    pub fn logged(mut self, log: Option<SessionLog>) -> Self {
        self.log = log;
        self
    }

    /// Writes the last reply, which is this turn. `delivered` says that a request waits for it.
    pub(super) fn log_reply(&mut self, turn: usize, delivered: bool) {
        let Some(SessionLog { journal, episode }) = &self.log else { return };
        let (turns, policy_turn) = self.transcript.unlogged();
        let Some(policy_turn) = policy_turn else { return };
        let graph_turn = self.graph.turn(turn);
        let reply = AddedReply {
            turn: Cow::Borrowed(policy_turn),
            parent: graph_turn.parent,
            given: Cow::Borrowed(&graph_turn.given),
            sampled: Cow::Borrowed(&graph_turn.sampled),
            delivered,
        };
        let turns = Cow::Borrowed(turns);
        journal.added(*episode, &Added { turns, reply: Some(reply), ..Added::default() });
    }

    /// Writes that the program has received a reply only now.
    pub(super) fn log_delivery(&self, turn: usize) {
        if let Some(SessionLog { journal, episode }) = &self.log
            && !self.graph.turn(turn).delivered
        {
            journal.added(*episode, &Added { delivered: Some(turn as u32), ..Added::default() });
        }
    }

    /// Writes the last call, and what it added besides the transcript.
    pub(super) fn log_call(&mut self, cost: f64, added: Option<Added<'static>>) {
        let Some(SessionLog { journal, episode }) = &self.log else { return };
        let (turns, _) = self.transcript.unlogged();
        let call = self.calls.last().cloned().map(|call| AddedCall { call, cost });
        journal.added(*episode, &Added { turns: Cow::Borrowed(turns), call, ..added.unwrap_or_default() });
    }
}
