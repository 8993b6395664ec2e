//! Failures of many episodes: failed calls counted by owner and kind, the last failure, and the limit of their share.

use std::collections::BTreeMap;

use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Failure};
use serde::{Deserialize, Serialize};

/// Minimum number of episodes before the share of failures is checked.
const MIN_EPISODES: u64 = 20;

/// A failure and its episode.
pub(crate) type LastFailure = (EpisodeId, Failure);

/// Failures of many episodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureTally {
    /// Episodes with at least one failure.
    pub episodes: u64,
    /// Those of them that the infrastructure failed in every attempt, and that were therefore dropped. The agent's turns
    /// caused the failures of the others.
    #[serde(default)]
    pub dropped: u64,
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
    pub(crate) fn count(&mut self, record: &EpisodeRecord) {
        let Some(last) = record.failures.last() else { return };
        self.episodes += 1;
        self.dropped += u64::from(record.ending == Ending::Dropped);
        for Failure { at, kind, .. } in &record.failures {
            *self.calls.entry(format!("{at}: {kind}")).or_default() += 1;
        }
        self.last = Some((record.id, last.clone()));
    }

    /// The figure of a progress line.
    pub(crate) fn figure(&self) -> Vec<String> {
        let calls = self.calls.iter().map(|(at, count)| (at.clone(), *count));
        failed_figure(self.episodes, self.dropped, calls)
    }

    /// Adds the failures of later episodes.
    pub(crate) fn add(&mut self, later: Self) {
        let Self { episodes, dropped, calls, last } = later;
        self.episodes += episodes;
        self.dropped += dropped;
        for (at, count) in calls {
            *self.calls.entry(at).or_default() += count;
        }
        self.last = last.or(self.last.take());
    }
}

/// Number of failed episodes among those played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failures {
    /// Episodes with a failure.
    pub failed: u64,
    /// Episodes played.
    pub played: u64,
}

impl Failures {
    /// Counts an episode.
    pub fn count(&mut self, record: &EpisodeRecord) {
        self.failed += u64::from(!record.failures.is_empty());
        self.played += 1;
    }

    /// Adds the counts of later episodes.
    pub fn add(&mut self, more: Self) {
        self.failed += more.failed;
        self.played += more.played;
    }

    /// Removes counts that were added before.
    pub fn remove(&mut self, less: Self) {
        self.failed = self.failed.saturating_sub(less.failed);
        self.played = self.played.saturating_sub(less.played);
    }

    /// A warning that names the last failure.
    pub fn described(self, (id, failure): &LastFailure) -> String {
        format!("{} of {} episodes failed; last failure, in episode {id}: {failure}", self.failed, self.played)
    }

    /// Fails if the share of failed episodes exceeds `limit`.
    pub fn judge(self, limit: f64, last: Option<LastFailure>) -> RunResult<()> {
        if self.exceed(limit) { Err(self.too_many("episodes", limit, last)) } else { Ok(()) }
    }

    /// Error for too many failures; `of` names the episodes.
    pub fn too_many(self, of: &str, limit: f64, last: Option<LastFailure>) -> RunError {
        let Self { failed, played } = self;
        let last = last.map(|(id, failure)| format!("\nlast failure, in episode {id}: {failure}"));
        RunError::user(format!(
            "too many failures: {failed} of {played} {of} failed, above failures.limit = {limit}{}\nhint: correct the \
             plugin that fails, or raise failures.limit",
            last.unwrap_or_default()
        ))
    }

    /// Reports whether enough episodes were played and more than the share `limit` of them failed.
    fn exceed(self, limit: f64) -> bool {
        self.played >= MIN_EPISODES && self.failed as f64 > limit * self.played as f64
    }
}

/// Failures of a batch, in total and by environment.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct BatchFailures {
    /// Failed episodes among those played.
    pub total: Failures,
    /// Failed calls.
    pub tally: FailureTally,
    /// Failed episodes of each environment with the last failure, in a run with several.
    pub environments: BTreeMap<String, (Failures, Option<LastFailure>)>,
}

impl BatchFailures {
    /// Counts an episode.
    pub fn count(&mut self, record: &EpisodeRecord) {
        self.total.count(record);
        self.tally.count(record);
        let Some(name) = &record.environment else { return };
        let (failures, last) = self.environments.entry(name.clone()).or_default();
        failures.count(record);
        if let Some(failure) = record.failures.last() {
            *last = Some((record.id, failure.clone()));
        }
    }
}

/// Most causes on a progress line.
const LISTED: usize = 2;

/// The number of failed episodes, of the dropped ones among them, and of failed calls by owner and kind, for a progress
/// line; empty without any.
pub(crate) fn failed_figure(failed: u64, dropped: u64, calls: impl Iterator<Item = (String, u64)>) -> Vec<String> {
    if failed == 0 {
        return vec![];
    }
    let mut calls: Vec<(String, u64)> = calls.collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = if calls.len() > LISTED { ", …" } else { "" };
    let causes: Vec<String> = calls.iter().take(LISTED).map(|(at, count)| format!("{count} of {at}")).collect();
    let dropped = (dropped > 0).then(|| format!("{dropped} dropped; "));
    vec![format!("{failed} failed ({}{}{more})", dropped.unwrap_or_default(), causes.join(", "))]
}

/// Finds failures above the limit: those of the stage, or those of the batch alone, because earlier successes would
/// hide a plugin that breaks late. The text names the episodes.
pub(crate) fn too_many(stage: Failures, batch: Failures, limit: f64) -> Option<(Failures, &'static str)> {
    let judged = [(stage, "episodes of this stage"), (batch, "episodes of the last batch")];
    judged.into_iter().find(|(failures, _)| failures.exceed(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_record::{Boundary, CallSite, FailureKind, Phase, Seed, TaskRef};

    fn failed(group: u32, ending: Ending, failures: &[Failure]) -> EpisodeRecord {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member: 0, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        EpisodeRecord { failures: failures.to_vec(), ..EpisodeRecord::new(id, task, Seed(0), ending) }
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
        tally.count(&failed(0, Ending::Terminated, &[]));
        assert!(tally.is_empty() && tally == FailureTally::default());
        tally.count(&failed(1, Ending::EnvironmentFailed, &[first.clone(), second]));
        tally.count(&failed(2, Ending::Terminated, &[]));
        assert_eq!(tally.last.as_ref().map(|(id, failure)| (id.group, failure.message.as_str())), Some((1, "two")));
        let mut later = FailureTally::default();
        later.count(&failed(3, Ending::Dropped, &[first, third]));
        tally.add(later);
        tally.add(FailureTally::default());
        let calls: Vec<(&str, u64)> = tally.calls.iter().map(|(at, count)| (at.as_str(), *count)).collect();
        assert_eq!(calls, [("the model: fault", 1), ("tool `search`: memory", 1), ("tool `search`: trap", 2)]);
        assert_eq!((tally.episodes, tally.dropped), (2, 1));
        assert_eq!(tally.last.as_ref().map(|(id, failure)| (id.group, failure.message.as_str())), Some((3, "three")));
        let text = serde_json::to_string(&tally).expect("JSON");
        assert_eq!(serde_json::from_str::<FailureTally>(&text).expect("a tally"), tally);
    }

    #[test]
    fn a_progress_line_names_the_most_frequent_causes() {
        let calls = |counts: &[u64]| {
            let named = counts.iter().enumerate().map(|(number, count)| (format!("tool `{number}`: trap"), *count));
            named.collect::<Vec<_>>().into_iter()
        };
        assert_eq!(failed_figure(0, 0, calls(&[])), [""; 0]);
        assert_eq!(failed_figure(3, 0, calls(&[4])), ["3 failed (4 of tool `0`: trap)"]);
        let three = failed_figure(6, 2, calls(&[1, 3, 2]));
        assert_eq!(three, ["6 failed (2 dropped; 3 of tool `1`: trap, 2 of tool `2`: trap, …)"]);
    }

    #[test]
    fn a_plugin_that_breaks_late_is_noticed_at_once() {
        let failures = |failed, played| Failures { failed, played };
        let judged = |stage, batch| too_many(stage, batch, 0.2).map(|(failures, _)| failures);
        assert_eq!(judged(failures(20, 2000), failures(20, 40)), Some(failures(20, 40)));
        assert_eq!(judged(failures(8, 2000), failures(8, 40)), None, "as many as the limit allows");
        // Small batches are judged by the stage.
        assert_eq!(judged(failures(10, 19), failures(4, 4)), None);
        assert_eq!(judged(failures(10, 20), failures(4, 4)), Some(failures(10, 20)));
    }
}
