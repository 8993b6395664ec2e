//! Recorded results that a replay uses instead of making a call.

use std::collections::VecDeque;

use gymkhana_record::{Boundary, CallCost, CallSite, Cost, EpisodeRecord, Exchange, Failure};

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
}

impl CallOverrides {
    /// The overrides for a replay of this record.
    #[must_use]
    pub fn of(record: &EpisodeRecord) -> Self {
        let replaced = |failure: &&Failure| failure.kind.depends_on_time() || failure.call_site == CallSite::Advise;
        let failures: Vec<Failure> = record.failures.iter().filter(replaced).cloned().collect();
        let failed =
            |at: &Boundary, site: &CallSite| failures.iter().any(|one| one.at == *at && one.call_site == *site);
        let skipped =
            |exchange: &Exchange| exchange.call_site == CallSite::Advise || failed(&exchange.at, &exchange.call_site);
        let costs = record.costs.iter().filter(|call| failed(&call.at, &call.call_site)).cloned().collect();
        let exchanges = record.exchanges.iter().map(|exchange| (exchange.clone(), skipped(exchange))).collect();
        Self { failures, costs, exchanges: Some(exchanges) }
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

    /// Recorded exchanges of one plugin, in order, each with whether its call is not repeated; `None` if the episode is
    /// not a replay and outbound calls are made.
    pub(crate) fn exchanges(&self, at: &Boundary) -> Option<RecordedExchanges> {
        let exchanges = self.exchanges.as_ref()?;
        Some(exchanges.iter().filter(|(exchange, _)| exchange.at == *at).cloned().collect::<VecDeque<_>>())
    }
}
