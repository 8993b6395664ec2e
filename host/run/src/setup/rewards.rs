//! What the run file says of rewards: weights with their schedules, gates, and what counts as success.

use gymkhana_rollout::{Gate, PluginSet, RewardSum, RewardTerm, RuleError, Schedule, Weight};

use crate::error::{Classify, RunError, RunResult};
use gymkhana_config::RunFile;
use gymkhana_nearest::did_you_mean;

/// What a reward plugin or the environment, `of`, counts.
pub fn share(of: &str, weight: f64, schedule: Option<Schedule>, gate: Option<&str>) -> RunResult<RewardTerm> {
    let gate = gate.map(|text| Gate::parse(of, text)).transpose().user_error()?;
    Ok(RewardTerm { weight: Weight { start: weight, schedule }, gate })
}

/// The run's assembly, checked against its plugins.
pub fn reward_sum(file: &RunFile, set: &PluginSet) -> RunResult<RewardSum> {
    let section = &file.environment;
    let assembly = RewardSum {
        environment: share("environment", section.weight, section.schedule, section.gate.as_deref())?,
        failure_reward: file.failures.reward,
        success: file.success.parse().user_error()?,
    };
    set.check_rules(&assembly).map_err(|error| with_nearest_name(&error))?;
    Ok(assembly)
}

/// What a rule of the run file names is not there: says what is most like it.
pub fn with_nearest_name(error: &RuleError) -> RunError {
    let near = match error {
        RuleError::Form { .. } | RuleError::Condition { .. } | RuleError::Circle { .. } => String::new(),
        RuleError::NoReward { reward: wrong, known, .. }
        | RuleError::NoComponent { component: wrong, known, .. }
        | RuleError::NoFact { fact: wrong, known, .. } => did_you_mean(wrong, known.iter().map(String::as_str)),
    };
    RunError::user(format!("{error}{near}"))
}
