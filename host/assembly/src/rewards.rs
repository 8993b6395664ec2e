//! Rewards of a run file: weights, schedules, gates and the success criterion.

use gymkhana_rollout::{Gate, PluginSet, RewardSum, RewardTerm, RuleError, Schedule, Weight};

use crate::error::{Classify, RunError, RunResult};
use gymkhana_config::RunFile;
use gymkhana_nearest::did_you_mean;

/// Term of the reward plugin or the environment `of` in the sum of rewards.
pub fn term(of: &str, weight: f64, schedule: Option<Schedule>, gate: Option<&str>) -> RunResult<RewardTerm> {
    let gate = gate.map(|text| Gate::parse(of, text)).transpose().user_error()?;
    Ok(RewardTerm { weight: Weight { start: weight, schedule }, gate })
}

/// Sum of rewards of a run, checked against its plugins.
pub fn reward_sum(file: &RunFile, set: &PluginSet) -> RunResult<RewardSum> {
    let section = &file.environment;
    let sum = RewardSum {
        environment: term("environment", section.weight, section.schedule, section.gate.as_deref())?,
        failure_reward: file.failures.reward,
        success: file.success.parse().user_error()?,
    };
    set.check_rules(&sum).map_err(|error| with_nearest_name(&error))?;
    Ok(sum)
}

/// Error of a rule with an unknown name, with the nearest known name.
pub fn with_nearest_name(error: &RuleError) -> RunError {
    let near = match error {
        RuleError::Form { .. } | RuleError::Condition { .. } | RuleError::Circle { .. } => String::new(),
        RuleError::NoReward { reward: wrong, known, .. }
        | RuleError::NoComponent { component: wrong, known, .. }
        | RuleError::NoFact { fact: wrong, known, .. } => did_you_mean(wrong, known.iter().map(String::as_str)),
    };
    RunError::user(format!("{error}{near}"))
}
