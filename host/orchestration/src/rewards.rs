//! Rewards of a run file: weights, schedules, gates and the success criterion.

use gymkhana_rollout::{
    Gate, MetricRuleError, PluginSet, ProvokedReward, RewardSum, RewardTerm, Weight, WeightSchedule,
};

use crate::error::{Classify, RunError, RunResult};
use gymkhana_config::EpisodeRules;
use gymkhana_nearest::{did_you_mean, nearest};

/// Term of the reward plugin or the environment `of` in the sum of rewards.
pub fn term(of: &str, weight: f64, schedule: Option<WeightSchedule>, gate: Option<&str>) -> RunResult<RewardTerm> {
    let gate = gate.map(|text| Gate::parse(of, text)).transpose().user_error()?;
    Ok(RewardTerm { weight: Weight { start: weight, schedule }, gate, seat: None })
}

/// Sum of rewards of a run, checked against its plugins.
pub fn reward_sum(rules: &EpisodeRules, set: &PluginSet) -> RunResult<RewardSum> {
    let section = &rules.environment;
    let sum = RewardSum {
        environment: term("environment", section.weight, section.schedule, section.gate.as_deref())?,
        provoked: rules.failures.provoked,
        success: rules.success.parse().map_err(|error: MetricRuleError| with_metrics(&error, &rules.success, set))?,
    };
    set.check_rules(&sum).map_err(|error| with_nearest_name(&error))?;
    Ok(sum)
}

/// Warning for a `failures.provoked` above the least total of an environment: an agent that cannot do worse than by a
/// crash may learn to provoke one.
#[must_use]
pub fn provoked_warning(set: &PluginSet, sum: &RewardSum) -> Option<String> {
    let ProvokedReward::Fixed(total) = sum.provoked else { return None };
    let least = set.least_total(sum, 0);
    (total > least).then(|| {
        format!(
            "failures.provoked = {total} pays more than the least total of environment `{}`, {least}: the policy may \
             learn to provoke failures\nhint: use failures.provoked = \"least\", or at most {least}",
            set.environment().plugin.name()
        )
    })
}

/// Error of a success criterion that names no metric, with the metrics of the run.
fn with_metrics(error: &MetricRuleError, wrong: &str, set: &PluginSet) -> RunError {
    let environment = set.environment().plugin.name();
    RunError::user(format!("{error}\nhint: use {}", metrics(wrong, environment, &set.components().collect::<Vec<_>>())))
}

/// Components of rewards and the environment's facts, with the component that is nearest to a wrong name.
fn metrics(wrong: &str, environment: &str, components: &[(&str, &str)]) -> String {
    let listed: String = components.iter().map(|(reward, component)| format!("`{reward}.{component}`, ")).collect();
    let near = nearest(wrong, components.iter().map(|(_, component)| *component));
    let near = components.iter().find(|(_, component)| Some(*component) == near);
    let near = near.map(|(reward, component)| format!("; did you mean `{reward}.{component}`?")).unwrap_or_default();
    let or = if components.is_empty() { "" } else { "or " };
    format!("{listed}{or}`environment.FACT` with a fact of environment `{environment}`{near}")
}

/// Error of a rule with an unknown name, with the nearest known name.
pub fn with_nearest_name(error: &MetricRuleError) -> RunError {
    let near = match error {
        MetricRuleError::Form { .. } | MetricRuleError::Condition { .. } | MetricRuleError::Circle { .. } => {
            String::new()
        }
        MetricRuleError::NoReward { reward: wrong, known, .. }
        | MetricRuleError::NoComponent { component: wrong, known, .. }
        | MetricRuleError::NoFact { fact: wrong, known, .. } => did_you_mean(wrong, known.iter().map(String::as_str)),
    };
    RunError::user(format!("{error}{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_may_be_a_component_or_a_fact() {
        let components = [("style", "format"), ("style", "brevity"), ("answer-match", "correct")];
        assert_eq!(
            metrics("foo", "sokoban", &components),
            "`style.format`, `style.brevity`, `answer-match.correct`, or `environment.FACT` with a fact of environment \
             `sokoban`"
        );
        assert_eq!(
            metrics("corect", "sokoban", &components[2..]),
            "`answer-match.correct`, or `environment.FACT` with a fact of environment `sokoban`; did you mean \
             `answer-match.correct`?"
        );
        assert_eq!(metrics("foo", "sokoban", &[]), "`environment.FACT` with a fact of environment `sokoban`");
    }
}
