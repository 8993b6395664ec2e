//! Failures of many episodes: failed calls counted by owner and kind, and the last failure.

use std::collections::BTreeMap;

use gymkhana_record::{EpisodeId, Failure};
use serde::{Deserialize, Serialize};

/// A failure and its episode.
pub(crate) type LastFailure = (EpisodeId, Failure);

/// Failures of many episodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureTally {
    /// Episodes with at least one failure.
    pub episodes: u64,
    /// Failed calls by owner and kind, such as "tool `search`: trap".
    pub calls: BTreeMap<String, u64>,
    /// The last failure and its episode.
    pub last: Option<(EpisodeId, Failure)>,
}

impl FailureTally {
    /// Whether no episode failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.episodes == 0
    }

    /// Adds the failures of an episode.
    pub(crate) fn count(&mut self, id: EpisodeId, failures: &[Failure]) {
        let Some(last) = failures.last() else { return };
        self.episodes += 1;
        for Failure { at, kind, .. } in failures {
            *self.calls.entry(format!("{at}: {kind}")).or_default() += 1;
        }
        self.last = Some((id, last.clone()));
    }

    /// Adds the failures of later episodes.
    pub(crate) fn add(&mut self, later: Self) {
        let Self { episodes, calls, last } = later;
        self.episodes += episodes;
        for (at, count) in calls {
            *self.calls.entry(at).or_default() += count;
        }
        self.last = last.or(self.last.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_record::{Boundary, CallSite, FailureKind, Phase};

    fn id(group: u32) -> EpisodeId {
        EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member: 0, attempt: 0 }
    }

    fn failure(at: Boundary, kind: FailureKind, message: &str) -> Failure {
        Failure { at, kind, call_site: CallSite::Score, message: message.to_owned() }
    }

    #[test]
    fn failed_calls_are_counted_by_owner_and_kind() {
        let search = || Boundary::Tool("search".to_owned());
        let (first, second) =
            (failure(search(), FailureKind::Trap, "one"), failure(search(), FailureKind::Memory, "two"));
        let third = failure(Boundary::Model, FailureKind::Fault, "three");
        let mut tally = FailureTally::default();
        tally.count(id(0), &[]);
        assert!(tally.is_empty() && tally == FailureTally::default());
        tally.count(id(1), &[first.clone(), second]);
        tally.count(id(2), &[]);
        assert_eq!(tally.last.as_ref().map(|(id, failure)| (id.group, failure.message.as_str())), Some((1, "two")));
        let mut later = FailureTally::default();
        later.count(id(3), &[first, third]);
        tally.add(later);
        tally.add(FailureTally::default());
        let calls: Vec<(&str, u64)> = tally.calls.iter().map(|(at, count)| (at.as_str(), *count)).collect();
        assert_eq!(calls, [("the model: fault", 1), ("tool `search`: memory", 1), ("tool `search`: trap", 2)]);
        assert_eq!(tally.episodes, 2);
        assert_eq!(tally.last.as_ref().map(|(id, failure)| (id.group, failure.message.as_str())), Some((3, "three")));
        let text = serde_json::to_string(&tally).expect("JSON");
        assert_eq!(serde_json::from_str::<FailureTally>(&text).expect("a tally"), tally);
    }
}
