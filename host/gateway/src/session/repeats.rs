//! Repeats of requests: a client that lost an answer sends the same request again and gets the same answer.
//!
//! A request is a repeat if it is equal to one in flight, or to one that was answered within the window. A client that
//! names its requests by `Idempotency-Key` decides itself: the same name is a repeat, another name is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{RequestIdentity, ResponseSender};
use crate::dialect::PolicyReply;

/// Answers that are remembered at once.
const REMEMBERED: usize = 64;

/// A request that was made before.
pub(super) enum EarlierRequest<'a> {
    /// Its answer, and its turn.
    Answered(Arc<PolicyReply>, Option<usize>),
    /// Those who wait for its answer.
    InFlight(&'a mut Vec<ResponseSender>),
}

struct Remembered {
    identity: RequestIdentity,
    reply: Arc<PolicyReply>,
    turn: Option<usize>,
    at: Instant,
}

/// Requests in flight, and the last answers.
pub(super) struct Repeats {
    window: Duration,
    in_flight: Vec<(RequestIdentity, Vec<ResponseSender>)>,
    answered: Vec<Remembered>,
}

impl RequestIdentity {
    /// Whether `other` is the same request.
    fn repeats(&self, other: &Self) -> bool {
        match (&self.idempotency_key, &other.idempotency_key) {
            (Some(own), Some(other)) => own == other,
            _ => self.digest == other.digest,
        }
    }
}

impl Repeats {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, in_flight: vec![], answered: vec![] }
    }

    /// The same request, if it was made before. The window does not bound what the client calls a retry.
    pub(super) fn find(&mut self, identity: &RequestIdentity, is_retry: bool) -> Option<EarlierRequest<'_>> {
        let named = |known: &Remembered| {
            known.identity.idempotency_key.is_some() && known.identity.idempotency_key == identity.idempotency_key
        };
        let recent = |known: &Remembered| is_retry || named(known) || known.at.elapsed() < self.window;
        let same = |known: &&Remembered| known.identity.repeats(identity) && recent(known);
        if let Some(known) = self.answered.iter().rev().find(same) {
            return Some(EarlierRequest::Answered(Arc::clone(&known.reply), known.turn));
        }
        let running = self.in_flight.iter_mut().find(|(running, _)| running.repeats(identity));
        running.map(|(_, waiting)| EarlierRequest::InFlight(waiting))
    }

    /// A request begins.
    pub(super) fn begin(&mut self, identity: RequestIdentity, reply: ResponseSender) {
        self.in_flight.push((identity, vec![reply]));
    }

    /// A request has ended: those who wait for its answer.
    pub(super) fn end(&mut self, identity: &RequestIdentity) -> Vec<ResponseSender> {
        match self.in_flight.iter().position(|(running, _)| running == identity) {
            Some(place) => self.in_flight.swap_remove(place).1,
            None => vec![],
        }
    }

    /// Remembers an answer.
    pub(super) fn remember(&mut self, identity: RequestIdentity, reply: &Arc<PolicyReply>, turn: Option<usize>) {
        if self.answered.len() >= REMEMBERED {
            self.answered.remove(0);
        }
        self.answered.push(Remembered { identity, reply: Arc::clone(reply), turn, at: Instant::now() });
    }
}
