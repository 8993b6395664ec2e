//! Recorded results that a replay uses instead of making a call.

use std::collections::{HashMap, VecDeque};

use gymkhana_record::{Boundary, CallCost, CallSite, Content, Cost, EpisodeRecord, Exchange, Failure, Turn};

use crate::recorder::RecordedExchanges;

/// Failures that depended on the clock, failures of an oracle (which a replay does not ask), and answers to outbound
/// calls. Empty for an episode that is not a replay.
#[derive(Debug, Clone, Default)]
pub struct CallOverrides {
    failures: Vec<Failure>,
    /// Costs of the calls that ended in these failures.
    costs: Vec<CallCost>,
    /// Exchanges, and whether each belongs to a call that is not repeated; `None` if the episode is not a replay.
    exchanges: Option<Vec<(Exchange, bool)>>,
    /// Recorded answers to calls, by the call's id.
    answers: HashMap<String, RecordedAnswer>,
}

/// The recorded answer to a call, with what the call cost.
#[derive(Debug, Clone)]
pub(crate) struct RecordedAnswer {
    pub(crate) content: Content,
    pub(crate) failed: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) cost: Option<CallCost>,
}

impl CallOverrides {
    /// The overrides for a replay of this record.
    #[must_use]
    pub fn of(record: &EpisodeRecord) -> Self {
        let replaced = |failure: &&Failure| failure.kind.depends_on_time() || failure.call_site == CallSite::Advise;
        let failures: Vec<Failure> = record.failures.iter().filter(replaced).cloned().collect();
        let failed = |at: &Boundary, site: &CallSite| {
            failures.iter().any(|one| same_call(&one.at, at) && one.call_site == *site)
        };
        let skipped =
            |exchange: &Exchange| exchange.call_site == CallSite::Advise || failed(&exchange.at, &exchange.call_site);
        let costs = record.costs.iter().filter(|call| failed(&call.at, &call.call_site)).cloned().collect();
        let exchanges = record.exchanges.iter().map(|exchange| (exchange.clone(), skipped(exchange))).collect();
        Self { failures, costs, exchanges: Some(exchanges), answers: answers(record) }
    }

    /// The recorded failure that replaces this call, if any.
    #[must_use]
    pub fn failure(&self, at: &Boundary, site: &CallSite) -> Option<Failure> {
        self.failures.iter().find(|failure| failure.at == *at && failure.call_site == *site).cloned()
    }

    /// Cost of the call whose recorded failure replaces this call.
    pub(crate) fn cost(&self, at: &Boundary, site: &CallSite) -> Option<Cost> {
        self.costs.iter().find(|call| call.at == *at && call.call_site == *site).map(|call| call.cost)
    }

    /// The recorded answer to a call; `None` if the episode is not a replay, or the record ends before the answer.
    pub(crate) fn answer(&self, call: &str) -> Option<&RecordedAnswer> {
        self.answers.get(call)
    }

    /// Recorded exchanges of one plugin, in order, each with whether its call is not repeated; `None` if the episode is
    /// not a replay and outbound calls are made.
    pub(crate) fn exchanges(&self, at: &Boundary) -> Option<RecordedExchanges> {
        let exchanges = self.exchanges.as_ref()?;
        Some(exchanges.iter().filter(|(exchange, _)| exchange.at == *at).cloned().collect::<VecDeque<_>>())
    }
}

/// Whether calls of two plugins at one call site are one call: those of a wrapper and of the environment inside are.
fn same_call(one: &Boundary, other: &Boundary) -> bool {
    one == other || matches!((one, other), (Boundary::Environment(_), Boundary::Environment(_)))
}

/// The answers in a record, by the call's id.
fn answers(record: &EpisodeRecord) -> HashMap<String, RecordedAnswer> {
    let mut answers = HashMap::new();
    for turn in &record.turns {
        let Turn::Answer { id, content, failed, .. } = turn else { continue };
        let site = CallSite::tool(id);
        let answer = RecordedAnswer {
            content: content.clone(),
            failed: *failed,
            failure: record.failures.iter().find(|failure| failure.call_site == site).cloned(),
            cost: record.costs.iter().find(|cost| cost.call_site == site).cloned(),
        };
        answers.insert(id.clone(), answer);
    }
    answers
}
