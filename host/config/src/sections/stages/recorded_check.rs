//! Relations of `recorded` to the other keys of its stage.

use gymkhana_algorithm::Algorithm;
use gymkhana_rules::SamplingPlan;

use super::{RecordedPreferences, RlStage};
use crate::error::RunFileError;

impl RlStage {
    /// Rejects preferences without an origin, keys of another origin, algorithms without a loss over preferences, and keys
    /// that sample episodes.
    pub(super) fn check_recorded(
        &self,
        recorded: &RecordedPreferences,
        algorithm: &Algorithm,
    ) -> Result<(), RunFileError> {
        let name = &self.name;
        let contradiction = |why: String| Err(RunFileError::Contradiction(format!("stage `{name}`: {why}")));
        if recorded.runs.is_empty() == recorded.files.is_empty() {
            let why = "recorded must have exactly one of the keys `runs` and `files`\nhint: name folders of runs, or files \
                       of preferences";
            return contradiction(why.to_owned());
        }
        if !algorithm.prefers() {
            return contradiction(format!(
                "`recorded` needs a loss over preferences, which algorithm `{}` does not have\nhint: set kind = \"dpo\" \
                 or \"kto\", or remove `recorded`",
                self.algorithm
            ));
        }
        let of_runs = recorded.files.is_empty();
        let single = "a loss over single episodes";
        let without_effect = [
            (recorded.filter.is_some() && !of_runs, "where", "`files`"),
            (recorded.skip_bad > 0 && of_runs, "skip_bad", "`runs`"),
            (recorded.margin > 0.0 && !of_runs, "margin", "`files`"),
            (recorded.margin > 0.0 && !algorithm.pairs(), "margin", single),
            (recorded.branches && !of_runs, "branches", "`files`"),
            (recorded.branches && !algorithm.pairs(), "branches", single),
        ];
        if let Some((_, key, of)) = without_effect.into_iter().find(|(is_set, ..)| *is_set) {
            return contradiction(format!("recorded.{key} has no effect with {of}\nhint: remove it"));
        }
        if !of_runs {
            let of_sampling = [
                (algorithm.off_policy.is_some(), "off_policy"),
                (algorithm.entropy_quantile.is_some(), "entropy_quantile"),
                (algorithm.entropy_band.is_some(), "entropy_band"),
            ];
            if let Some((_, key)) = of_sampling.into_iter().find(|(is_set, _)| *is_set) {
                return contradiction(format!(
                    "settings.{key} needs the probabilities with which tokens were sampled, which `files` do not \
                     have\nhint: remove it"
                ));
            }
        }
        let sampled = [
            (self.plan.kind() != SamplingPlan::default().kind(), "plan"),
            (self.dynamic_sampling.max_rounds > 0, "dynamic_sampling"),
            (self.oversample_groups > 0, "oversample_groups"),
            (self.max_staleness > 0, "max_staleness"),
            (self.turns.is_some(), "turns"),
            (self.demonstrations.is_some(), "demonstrations"),
            (self.alternate_every > 0, "alternate_every"),
            (self.shuffle_rewards, "shuffle_rewards"),
            (self.sampling().cuts(), "a cut by top_k, top_p or min_p"),
        ];
        match sampled.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, key)) => {
                contradiction(format!("{key} has no effect with `recorded`\nhint: remove it, or `recorded`"))
            }
            None => Ok(()),
        }
    }
}
