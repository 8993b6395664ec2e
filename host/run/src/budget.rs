//! Episodes and tokens that a run may need, from its run file alone.

use std::fmt::{Display, Formatter};

use gymkhana_config::{LimitsSection, RunFile, Stage};

/// Upper bounds for a run without failures, dynamic sampling and oversampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunBudget {
    /// Episodes of training steps, demonstrations included.
    training: u64,
    /// Held-out episodes.
    evaluation: u64,
    /// Sampled tokens of the policy in all of them, without those of oracles.
    tokens: u64,
}

impl RunBudget {
    /// The budget of a run in which the policy plays this number of seats.
    pub fn of(file: &RunFile, own_seats: usize) -> Self {
        let (mut demonstrations, mut played) = (0_u64, 0_u64);
        for stage in &file.stages {
            match stage {
                Stage::Sft(own) if stage.has_demonstrations() => {
                    demonstrations = demonstrations.saturating_add(own.steps.saturating_mul(u64::from(own.batch)));
                }
                // What was recorded is not played.
                Stage::Sft(_) => {}
                Stage::Rl(stage) if stage.recorded.is_some() => {}
                Stage::BestOfN(stage) => {
                    let attempts = u64::from(stage.tasks).saturating_mul(u64::from(stage.attempts));
                    played = played.saturating_add(stage.steps.saturating_mul(attempts));
                }
                Stage::Rl(stage) => {
                    let members = u64::from(stage.plan.members(stage.group_size));
                    let groups = stage.steps.saturating_mul(u64::from(stage.groups));
                    played = played.saturating_add(groups.saturating_mul(members));
                    let shown = stage.demonstrations.map_or(0, |shown| u64::from(shown.batch));
                    demonstrations = demonstrations.saturating_add(stage.steps.saturating_mul(shown));
                }
            }
        }
        let evaluation = evaluations(file).saturating_mul(held_out(file));
        let tokens = played.saturating_add(evaluation).saturating_mul(longest(file)).saturating_mul(own_seats as u64);
        Self { training: demonstrations.saturating_add(played), evaluation, tokens }
    }
}

/// Number of passes over the held-out tasks: before the first stage, within and after each, for each way of decoding.
fn evaluations(file: &RunFile) -> u64 {
    let within = |stage: &Stage| stage.steps().saturating_sub(1).checked_div(file.evaluation.every).unwrap_or(0);
    let points = 1 + file.stages.iter().map(|stage| 1 + within(stage)).sum::<u64>();
    points * (1 + u64::from(file.evaluation.sampled))
}

/// Number of held-out tasks of all environments. A split may have fewer.
fn held_out(file: &RunFile) -> u64 {
    file.environment_settings().iter().map(|settings| settings.eval_tasks).sum()
}

/// Most sampled tokens of a seat in an episode of any environment.
fn longest(file: &RunFile) -> u64 {
    let of = |limits: &LimitsSection| u64::from(limits.turns).saturating_mul(limits.reply_tokens as u64);
    file.environment_settings().iter().map(|settings| of(&settings.rules.limits)).max().unwrap_or(0)
}

impl Display for RunBudget {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { training, evaluation, tokens } = self;
        write!(
            f,
            "budget: {training} episodes of training, at most {evaluation} of evaluations, at most {tokens} sampled tokens"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(text: &str) -> String {
        RunBudget::of(&RunFile::parse(text, "run.toml", &[]).unwrap(), 1).to_string()
    }

    /// Training: 10 · 4 demonstrations, 7 · 3 groups of 8, 7 · 2 demonstrations. Evaluations: before the first stage, after
    /// 3, 6 and 9 steps and at the end of the first, after 3 and 6 and at the end of the second, so 8, twice 50 tasks each.
    /// Tokens: 168 + 800 episodes of 5 · 20.
    #[test]
    fn episodes_and_tokens_are_counted() {
        let text = r#"
            success = "environment.success"
            limits = { turns = 5, reply_tokens = 20 }
            evaluation = { tasks = 50, every = 3 }
            [[stages]]
            kind = "sft"
            steps = 10
            batch = 4
            [[stages]]
            kind = "rl"
            steps = 7
            groups = 3
            group_size = 8
            demonstrations = { batch = 2, weight = 1.0 }
        "#;
        assert_eq!(
            budget(text),
            "budget: 222 episodes of training, at most 800 of evaluations, at most 96800 sampled tokens"
        );
    }

    #[test]
    fn environments_have_their_own_tasks_and_the_longest_counts() {
        let text = r#"
            success = "environment.success"
            evaluation = { tasks = 10, sampled = false }
            environments = [
                { plugin = "a", limits = { turns = 2, reply_tokens = 7 } },
                { plugin = "b", limits = { turns = 3, reply_tokens = 5 }, eval_tasks = 1 },
            ]
            stages = [{ kind = "rl", steps = 1, groups = 2, group_size = 2 }]
        "#;
        // Two evaluations of 11 tasks; 26 episodes of 15 tokens.
        assert_eq!(
            budget(text),
            "budget: 4 episodes of training, at most 22 of evaluations, at most 390 sampled tokens"
        );
    }
}
