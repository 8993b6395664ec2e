//! Warnings about figures that leave their usual range, as `host show --health` reports them.

use std::collections::BTreeSet;

use gymkhana_finding::Finding;
use gymkhana_health::{Health, usual};
use gymkhana_record::{EpisodeRecord, StepMetrics};

/// Checks whose symptoms have a warning of their own, which names the settings of the run.
const WARNED_ELSEWHERE: [&str; 3] = ["cut-replies", "groups-without-signal", "updates"];

/// Figures of this process's steps, and what was reported.
#[derive(Debug)]
pub(crate) struct HealthWatch {
    health: Health,
    /// Stages and checks that were outside of the usual range.
    reported: BTreeSet<(u32, String)>,
}

impl HealthWatch {
    /// A watch of a run without steps.
    pub fn new(health: Health) -> Self {
        Self { health, reported: BTreeSet::new() }
    }

    /// Adds the episodes of a training step.
    pub fn episodes<'a>(&mut self, records: impl Iterator<Item = &'a EpisodeRecord>) {
        records.for_each(|record| self.health.add_episode(record));
    }

    /// Adds the metrics of a training step; returns the findings that are new.
    pub fn step(&mut self, stage: u32, step: u64, values: &StepMetrics) -> Vec<Finding> {
        self.health.add_metrics(stage, step, &values.iter());
        let mut found = self.unusual(stage);
        found.retain(|finding| !WARNED_ELSEWHERE.contains(&&*finding.check));
        found.retain(|finding| self.reported.insert((stage, finding.check.to_string())));
        found
    }

    /// Names of the checks that are outside of their usual range at the end of a stage.
    pub fn end(&self, stage: u32) -> Vec<String> {
        self.unusual(stage).into_iter().map(|finding| finding.check.into_owned()).collect()
    }

    /// Findings outside of the usual range; none before the first steps are over.
    fn unusual(&self, stage: u32) -> Vec<Finding> {
        if self.health.steps(stage) < usual::STEPS as usize { vec![] } else { self.health.unusual(stage) }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_health::HealthSettings;
    use gymkhana_record::step_metrics::rl;

    use super::*;

    fn watch() -> HealthWatch {
        HealthWatch::new(Health::new(HealthSettings::parse("[[stages]]\nkind = \"rl\"").unwrap()))
    }

    fn checks(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| &*finding.check).collect()
    }

    #[test]
    fn a_figure_that_leaves_its_range_is_reported_once_after_three_steps() {
        let mut watch = watch();
        let stale = StepMetrics::from([(rl::STALENESS_MEAN, 5.0), (rl::UPDATES, 1.0)]);
        assert!((0..2).all(|step| watch.step(0, step, &stale).is_empty()));
        let found = watch.step(0, 2, &stale);
        assert_eq!(checks(&found), ["staleness"]);
        assert!(found[0].hint.as_deref().is_some_and(|hint| hint.contains("`stages.rl.max_staleness`")), "{found:?}");
        assert!(watch.step(0, 3, &stale).is_empty());
        assert_eq!(watch.end(0), ["staleness"]);
    }

    /// Cut replies have their own warning, with the limit of the run; the end of the stage names them.
    #[test]
    fn figures_with_a_warning_of_their_own_are_named_at_the_end_alone() {
        let mut watch = watch();
        let cut = StepMetrics::from([(rl::CUT_REPLIES, 0.9), (rl::UPDATES, 1.0)]);
        assert!((0..4).all(|step| watch.step(0, step, &cut).is_empty()));
        assert_eq!(watch.end(0), ["cut-replies"]);
        assert_eq!(watch.end(1), Vec::<String>::new());
    }
}
