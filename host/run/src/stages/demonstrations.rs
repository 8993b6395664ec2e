//! Demonstrations: episodes that the oracle plays, and the failures of those that did not meet `success`.

use std::collections::HashMap;

use gymkhana_policy::Sampling;
use gymkhana_record::{Ending, EpisodeRecord, Failure, Phase, Segment};

use crate::stop::Halt;
use crate::training_run::TrainingRun;
use gymkhana_orchestration::RunError;
use gymkhana_orchestration::scheduler::{GroupBatch, GroupTask};

/// Number of failed demonstrations in a row after which a run ends. Fewer may be chance: an environment may lack
/// demonstrations for some tasks.
pub(super) const MAX_FAILED: u64 = 100;

/// Hint for demonstrations that exceed the context.
pub(super) const LONGER_CONTEXT: &str = "raise policy.tiny.context or limits.context_tokens, or shorten policy.system";

/// Failed demonstrations of consecutive steps.
#[derive(Default)]
pub(super) struct FailedDemonstrations {
    endings: HashMap<Ending, u64>,
    failure: Option<Failure>,
}

impl FailedDemonstrations {
    pub fn add(&mut self, groups: &[Vec<EpisodeRecord>]) {
        for record in groups.iter().flatten() {
            *self.endings.entry(record.ending).or_default() += 1;
            self.failure = self.failure.take().or_else(|| record.failures.first().cloned());
        }
    }

    pub fn played(&self) -> u64 {
        self.endings.values().sum()
    }

    /// Error that names the most frequent ending, with a hint for it; `context` is the context limit in tokens.
    pub fn error(&self, environment: &str, context: usize) -> RunError {
        let played = self.played();
        let commonest = self.endings.iter().max_by_key(|(_, count)| **count).map(|(ending, count)| (*ending, *count));
        let (ending, count) = commonest.unwrap_or((Ending::Dropped, 0));
        let hint = match ending {
            Ending::TurnLimit => "raise limits.turns, or add the tools that the oracle calls to --plugins",
            Ending::ContextLimit => LONGER_CONTEXT,
            Ending::CallLimit => "raise limits.calls",
            Ending::EarlyStopped => "loosen limits.early_stop",
            Ending::TimeLimit => "raise limits.seconds",
            Ending::Terminated | Ending::Truncated => {
                "check that --plugins includes the tools that the oracle calls and that `success` is reachable, or \
                 raise `batch`"
            }
            Ending::EnvironmentFailed | Ending::AgentFailed | Ending::Dropped => "fix the failure",
        };
        let failure = self.failure.as_ref().map(|failure| format!("\nfirst failure: {failure}")).unwrap_or_default();
        let ended = match ending {
            Ending::ContextLimit => format!("exceeded the context of {context} tokens"),
            other => format!("ended as `{other}`"),
        };
        let message = format!(
            "no demonstrations: 0 of {played} oracle episodes of `{environment}` met `success`, and {count} \
             {ended}{failure}"
        );
        RunError::user(message).with_hint(hint)
    }
}

/// Segments of these seats in the episodes that the oracle solved.
pub(super) fn demonstrations(groups: &[Vec<EpisodeRecord>], seats: &[u32]) -> Vec<Segment> {
    let solved = groups.iter().flatten().filter(|record| record.success);
    let segments = solved.flat_map(|record| &record.segments);
    segments.filter(|segment| seats.contains(&segment.seat())).cloned().collect()
}

/// Number of episodes that the oracle solved.
pub(super) fn solved(groups: &[Vec<EpisodeRecord>]) -> usize {
    groups.iter().flatten().filter(|record| record.success).count()
}

impl TrainingRun {
    /// Episodes of these tasks by the oracle.
    pub(super) async fn play_oracle(
        &mut self,
        step: u64,
        tasks: Vec<GroupTask>,
    ) -> Result<Vec<Vec<EpisodeRecord>>, Halt> {
        let batch = GroupBatch::of_single_episodes(Phase::Demonstration, step, tasks, Sampling::GREEDY);
        self.play(batch, None).await
    }

    /// Error for an oracle whose episodes fail.
    pub(super) fn no_demonstrations(&self, failed: &FailedDemonstrations) -> RunError {
        let names =
            self.environments.iter().map(|environment| environment.rollout.plugins().environment().plugin.name());
        failed.error(&names.collect::<Vec<_>>().join("`, `"), self.context_tokens())
    }

    /// Length limit of a demonstration, in tokens.
    pub(super) fn context_tokens(&self) -> usize {
        self.file.context_tokens().unwrap_or(usize::MAX)
    }
}
