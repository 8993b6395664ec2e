//! Checks: each judges a figure of one stage by its usual range.

mod calls;
mod episodes;
mod groups;
mod policy;
mod training;

#[cfg(test)]
mod tests;

use crate::sums::StageFigures;

/// A figure of a stage in words, with the remedy if it is outside of its usual range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JudgedFigure {
    pub text: String,
    pub remedy: Option<String>,
}

impl JudgedFigure {
    /// A figure with its remedy, which is left out within the usual range.
    fn judged(is_usual: bool, text: String, remedy: impl FnOnce() -> String) -> Self {
        Self { text, remedy: (!is_usual).then(remedy) }
    }
}

/// A check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HealthCheck {
    /// Name in reports.
    pub name: &'static str,
    /// Usual range in words.
    pub range: fn(&StageFigures) -> String,
    /// JudgedFigure of a stage; `None` if the stage has no data for it.
    pub judge: fn(&StageFigures) -> Option<JudgedFigure>,
}

/// All checks, in the order of reports: episodes, calls, groups, training, policy.
pub(crate) const CHECKS: [HealthCheck; 19] = [
    HealthCheck { name: "endings", range: episodes::usual_endings, judge: episodes::endings },
    HealthCheck { name: "failures", range: episodes::usual_failures, judge: episodes::failures },
    HealthCheck { name: "context", range: episodes::usual_context, judge: episodes::context },
    HealthCheck { name: "slow-turns", range: episodes::usual_times, judge: episodes::times },
    HealthCheck { name: "cut-replies", range: calls::usual_cuts, judge: calls::cut_replies },
    HealthCheck { name: "malformed-calls", range: calls::usual_malformed, judge: calls::malformed },
    HealthCheck { name: "functions", range: calls::usual_functions, judge: calls::functions },
    HealthCheck { name: "groups-without-signal", range: groups::usual_signal, judge: groups::signal },
    HealthCheck { name: "duplicates", range: groups::usual_duplicates, judge: groups::duplicates },
    HealthCheck { name: "variety", range: groups::usual_variety, judge: groups::variety },
    HealthCheck { name: "updates", range: training::usual_updates, judge: training::updates },
    HealthCheck { name: "skipped-updates", range: training::usual_skipped, judge: training::skipped },
    HealthCheck { name: "step-size", range: training::usual_step_size, judge: training::step_size },
    HealthCheck { name: "reward-and-success", range: training::usual_reward, judge: training::reward },
    HealthCheck { name: "demonstrations", range: training::usual_demonstrations, judge: training::demonstrations },
    HealthCheck { name: "entropy", range: policy::usual_entropy, judge: policy::entropy },
    HealthCheck { name: "staleness", range: policy::usual_staleness, judge: policy::staleness },
    HealthCheck { name: "divergence", range: policy::usual_divergence, judge: policy::divergence },
    HealthCheck { name: "divergence-by-position", range: policy::usual_surprise, judge: policy::surprise },
];

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A bound of a range as a percentage.
fn bound(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A share of a count; 0 of none.
fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Mean of values; `None` of none.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
