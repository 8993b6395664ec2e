//! Checks of groups: equal rewards, repeated attempts, distinct sequences of actions.

use gymkhana_record::step_metrics::rl;

use super::{JudgedFigure, bound, percent, share};
use crate::sums::{GroupTotals, StageFigures};
use crate::usual::{DUPLICATES, LEAST_GROUPS, LEAST_UNSOLVED, VARIETY, WITHOUT_SIGNAL};

/// Share of episodes with an advantage from which on equal rewards do not matter: a teacher or a critic has them.
const OTHER_SIGNAL: f64 = 0.5;

/// Remedy for groups that compare nothing.
pub(super) fn more_signal(stage: &StageFigures) -> String {
    format!(
        "use easier tasks (`environment.options`, `sampler.kind`), a reward of several parts, a higher {}, or more `steps` \
         of an sft stage before it; or set {}",
        stage.bounds.key("temperature"),
        stage.bounds.key("dynamic_sampling.max_rounds")
    )
}

/// Remedy for attempts that are alike.
fn more_variety(stage: &StageFigures) -> String {
    let [temperature, bonus, rate] =
        ["temperature", "settings.entropy_bonus", "optimizer.learning_rate"].map(|key| stage.bounds.key(key));
    format!("raise {temperature} or {bonus}, or lower {rate}")
}

/// Whether enough groups are not solved to judge how alike their members are.
fn is_judged(groups: GroupTotals) -> bool {
    groups.unsolved() >= LEAST_GROUPS && share(groups.unsolved(), groups.groups) >= LEAST_UNSOLVED
}

pub(super) fn usual_signal(_: &StageFigures) -> String {
    format!("at most {} with equal rewards, solved groups left out", bound(WITHOUT_SIGNAL))
}

pub(super) fn signal(stage: &StageFigures) -> Option<JudgedFigure> {
    let groups = stage.groups;
    if groups.groups == 0 {
        return None;
    }
    let without = share(groups.without_signal, groups.groups);
    let text = format!(
        "{} of {} groups have equal rewards and are not solved; {} are solved by all members",
        percent(without),
        groups.groups,
        percent(share(groups.solved, groups.groups))
    );
    let sum = |metric| stage.metrics.iter().filter_map(|step| step.get(metric)).sum::<f64>();
    let has_other = sum(rl::EPISODES_WITH_ADVANTAGE) > OTHER_SIGNAL * sum(rl::EPISODES).max(1.0);
    let is_usual = without <= WITHOUT_SIGNAL || groups.groups < LEAST_GROUPS || has_other;
    Some(JudgedFigure::judged(is_usual, text, || more_signal(stage)))
}

pub(super) fn usual_duplicates(_: &StageFigures) -> String {
    format!("at most {} of the further members", bound(DUPLICATES))
}

pub(super) fn duplicates(stage: &StageFigures) -> Option<JudgedFigure> {
    let groups = stage.groups;
    let further = groups.members - groups.unsolved();
    if further == 0 {
        return None;
    }
    let repeated = share(groups.members - groups.distinct_tokens, further);
    let text = format!(
        "{} of {further} members after the first repeat the tokens of an earlier one, in {} groups that are not solved",
        percent(repeated),
        groups.unsolved()
    );
    Some(JudgedFigure::judged(repeated <= DUPLICATES || !is_judged(groups), text, || more_variety(stage)))
}

pub(super) fn usual_variety(_: &StageFigures) -> String {
    format!("at least {} of the further members act differently", bound(VARIETY))
}

pub(super) fn variety(stage: &StageFigures) -> Option<JudgedFigure> {
    let groups = stage.groups;
    let unsolved = groups.unsolved();
    let further = groups.members - unsolved;
    if further == 0 {
        return None;
    }
    let others = share(groups.distinct_actions - unsolved, further);
    let text = format!(
        "{:.1} distinct sequences of calls or messages per group of {:.1}, in {unsolved} groups that are not solved",
        share(groups.distinct_actions, unsolved),
        share(groups.members, unsolved)
    );
    Some(JudgedFigure::judged(others >= VARIETY || !is_judged(groups), text, || more_variety(stage)))
}
