//! Values of a training step: the table of all of them, and those of one step.
//!
//! A [`StepMetric`] can be created only in this file, so that every value that a run writes has a row with its name,
//! unit and meaning. `docs/reference/metrics.md` is generated from the rows.

use crate::{Boundary, FailureKind};

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMetric {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
}

impl StepMetric {
    /// Name in `metrics.jsonl` and in TensorBoard.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Unit; empty for a value without one.
    #[must_use]
    pub fn unit(self) -> &'static str {
        self.unit
    }

    /// Meaning, as Markdown without a full stop.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.meaning
    }
}

/// Defines rows and the slice that lists them.
macro_rules! rows {
    ($(#[$doc:meta])* $table:ident: $($row:ident = $name:literal, $unit:literal, $meaning:expr;)+) => {
        $(
            #[doc = concat!("The value `", $name, "`.")]
            pub const $row: StepMetric = StepMetric { name: $name, unit: $unit, meaning: $meaning };
        )+
        $(#[$doc])*
        pub const $table: &[StepMetric] = &[$($row),+];
    };
}

/// Supervised fine-tuning.
pub mod sft {
    use super::StepMetric;

    rows! {
        /// Values that the run measures.
        RUN:
        DEMONSTRATIONS = "demonstrations", "episodes", "demonstrations that were trained on: episodes of the oracle that \
            met `success`, recorded episodes and conversations";
        LEFT_OUT = "left_out", "episodes", "demonstrations left out because they exceed the context";
    }

    rows! {
        /// Values that a model's trainer measures.
        TRAINER:
        LOSS = "loss", "nats", "loss: mean negative log-probability of the demonstrator's tokens, plus `other_tokens` \
            times that of the other tokens";
        LOSS_SAMPLED = "loss_sampled", "nats per token", "the demonstrator's part of the loss";
        GRADIENT_NORM = "gradient_norm", "", "norm of the gradient before clipping; left out of a skipped step, as the \
            losses are";
        SKIPPED_UPDATES = "skipped_updates", "optimiser steps", "1 if the step was skipped because its gradient was not \
            finite, else 0";
        LEARNING_RATE = "learning_rate", "", "learning rate of the optimiser step";
        TOKENS = "tokens", "tokens", "tokens in the loss that the demonstrator wrote, and observed ones with \
            `train_observations`";
        POSITIONS = "positions", "tokens", "positions that the forward passes computed; a shared prefix counts once";
    }
}

/// Expert iteration. Values of the trainer are those of supervised fine-tuning.
pub mod best_of_n {
    use super::StepMetric;

    rows! {
        /// Values that the run measures.
        RUN:
        REWARD = "reward", "reward", "mean reward of the first seat over the attempts of the round";
        SUCCESS = "success", "share, 0 to 1", "share of the attempts that met `success`";
        EPISODES = "episodes", "episodes", "attempts of the round, without dropped ones";
        KEPT = "kept", "episodes", "attempts that were kept and trained on";
        TASKS = "kept_tasks", "tasks", "tasks of which an attempt was kept";
        UPDATES = "updates", "optimiser steps", "optimiser steps of the round";
    }
}

/// Reinforcement learning.
pub mod rl {
    use super::StepMetric;

    rows! {
        /// Values that the run measures.
        RUN:
        REWARD = "reward", "reward", "mean reward over the step's episodes and the seats that the run's policy plays";
        SUCCESS = "success", "share, 0 to 1", "share of the step's episodes that met `success`";
        PLAYED_REWARD = "played_reward", "reward", "`reward` over all episodes that the step played, also those of \
            groups that dynamic sampling replaced; only with `dynamic_sampling`";
        PLAYED_SUCCESS = "played_success", "share, 0 to 1", "`success` over all these episodes";
        EPISODES = "episodes", "episodes", "episodes of the step, without dropped and unselected ones";
        SAMPLED_TOKENS = "sampled_tokens", "tokens", "tokens that the policies of all seats sampled";
        REPLY_TOKENS = "reply_tokens", "tokens per reply", "mean length of the replies of the run's policy";
        THOUGHT_TOKENS = "thought_tokens", "tokens per reply", "mean number of tokens of the thoughts in these replies";
        CUT_REPLIES = "cut_replies", "share, 0 to 1", "share of these replies that no stop token or stop text ended, \
            but `limits.reply_tokens` or the context";
        CUT_SHORT = "cut_short", "share, 0 to 1", "share of the step's episodes that a limit cut short: one of the \
            run, or the environment's own";
        DEMONSTRATIONS = "demonstrations", "episodes", "demonstrations that met `success`; only with `demonstrations`";
        CALLS = "calls", "calls per episode", "mean number of function calls, without malformed ones, which \
            components of rewards such as `answer-match.calls` count too";
        MALFORMED_CALLS = "malformed_calls", "calls per episode", "mean number of calls that could not be parsed";
        FAILURES = "failures", "episodes", "episodes with at least one recorded failure";
        DROPPED = "dropped", "episodes", "episodes left out because the infrastructure failed in every attempt; those \
            of groups that dynamic sampling replaced and of rounds that an outage repeated count too";
        TASKS_RESTING = "tasks_resting", "tasks", "tasks that the sampler `difficulty` leaves out at present";
        SAMPLER_PHASE = "sampler_phase", "", "phase of the sampler `staged`, from 0";
        STALENESS_MAX = "staleness_max", "training steps", "maximum staleness of the sampled tokens";
        STALENESS_MEAN = "staleness_mean", "training steps", "mean staleness of the sampled tokens";
        SECONDS_PLAY = "seconds_play", "seconds", "wall-clock time until the step's episodes were complete; with \
            overlap, the wait of the trainer";
        SECONDS_TRAIN = "seconds_train", "seconds", "wall-clock time of the update, including the transfer of weights \
            to a server";
    }

    rows! {
        /// Values that the run measures per owner and kind of failures, such as `tool.search.trap`.
        CAUSE:
        FAILED_CALLS = "failed_calls", "failures", "failures with this owner and kind, such as `tool.search.trap` or \
            `model.fault`, in the episodes that the step played, also dropped ones; only with failures";
    }

    rows! {
        /// Values that the run measures per seat, in environments with several seats.
        SEAT:
        SEAT_REWARD = "reward", "reward", "mean reward of the seat `SEAT`; only in environments with several seats";
    }

    rows! {
        /// Values that a model's trainer measures.
        TRAINER:
        LOSS = "loss", "", "mean loss of the step's optimiser steps";
        GRADIENT_NORM = "gradient_norm", "", "mean norm of the gradients before clipping; left out without an optimiser step";
        LEARNING_RATE = "learning_rate", "", "learning rate of the last optimiser step";
        UPDATES = "updates", "optimiser steps", "optimiser steps of the policy; 0 if no sequence had a gradient";
        SKIPPED_UPDATES = "skipped_updates", "optimiser steps", "optimiser steps skipped because their gradient was not \
            finite; the other values leave out their minibatches";
        CLIP_FRACTION = "clip_fraction", "share, 0 to 1", "share of the tokens in the loss whose ratio a bound of the \
            surrogate replaced: by the sign of the advantage for `clip`, its dual bound included, and whatever the sign \
            for `cispo`; episodes without an advantage count in the denominator";
        BEHAVIOUR_DIVERGENCE = "behaviour_divergence", "nats per token", "mean k3 estimate of the divergence between \
            the trained policy and the policy before the update (the behaviour policy, or the proximal policy with \
            `off_policy`), over all tokens in the loss, those of episodes without an advantage included; about 0 for the \
            surrogates `regression`, `preference` and `unpaired-preference`";
        REFERENCE_DIVERGENCE = "reference_divergence", "nats per token", "mean estimate of the divergence from the \
            reference policy over all tokens in the loss, by `kl.estimator`, or k3 without `kl`; 0 without a \
            reference policy";
        ADVANTAGE_MEAN = "advantage_mean", "reward", "mean advantage, measured at the first token in the loss of each \
            seat's part of an episode";
        ADVANTAGE_STD = "advantage_std", "reward", "population standard deviation of these advantages";
        EPISODES_WITH_ADVANTAGE = "episodes_with_advantage", "seats' parts of episodes", "number of these advantages \
            that are not 0";
        TOKENS = "tokens", "tokens", "sampled tokens of the trained seats, including masked ones; a token that several \
            episodes share counts once, here and in all means over tokens";
        POSITIONS = "positions", "tokens", "positions that the forward passes of the updates computed; a shared prefix \
            counts once";
        ENTROPY = "entropy", "nats per token", "mean entropy of the behaviour policy at the sampled tokens; left out \
            for answers from files";
        ON_POLICY_DIVERGENCE = "on_policy_divergence", "nats per token", "mean k3 estimate of the divergence between \
            the policy before the update and the behaviour policy, over tokens of staleness 0 (of the first minibatch, \
            or all with `off_policy`); about 0 if the generating side computes as the trainer does; only with such \
            tokens";
        STEP_DIVERGENCE = "step_divergence", "nats per token", "mean over the optimiser steps of the divergence between \
            the policy after a step and before it, before the stage's `step_divergence` shortens the step: half of the \
            mean squared log-ratio of the minibatch's tokens; only with a bound";
        DEMONSTRATION_LOSS = "demonstration_loss", "nats per token", "mean negative log-probability of the oracle's \
            tokens in the step's demonstrations, over its optimiser steps; only with `demonstrations`";
        DEMONSTRATION_WEIGHT = "demonstration_weight", "", "weight of this loss in the step; only with \
            `demonstrations`";
        VALUE_LOSS = "value_loss", "", "mean loss of the critic's optimiser steps; only with a critic";
        EXPLAINED_VARIANCE = "explained_variance", "", "share of the variance of returns that the critic's values \
            before the step explain, 1 at best: 1 - var(target - value) / var(target); only with a critic, and if \
            targets differ";
        KL_BETA = "kl_beta", "", "weight of the divergence penalty in the step; only with `kl`";
        ENTROPY_WEIGHT = "entropy_weight", "", "weight of the entropy in the step; only with `entropy_bonus` or \
            `entropy_schedule`";
        REPLAYED = "replayed", "episodes", "replayed episodes; only with `replay.kind = \"self-imitation\"`";
        BACKFILLED = "backfilled", "groups", "groups without a success that got a stored one; only with \
            `replay.kind = \"backfill\"`";
        BETTER_REWARD = "better_reward", "", "mean implicit reward (β times the log-ratio of an episode to the reference \
            policy, before the update) of the better episodes of pairs, or of desirable ones; only with the surrogates \
            `preference` and `unpaired-preference`";
        WORSE_REWARD = "worse_reward", "", "mean implicit reward of the worse episodes of pairs, or of undesirable ones";
        PREFERENCE_ACCURACY = "preference_accuracy", "share, 0 to 1", "share of pairs whose better episode has the \
            higher implicit reward; only with the surrogate `preference`";
    }
}

/// Evaluation between training steps, in stages of both kinds.
pub mod evaluation {
    use super::StepMetric;

    rows! {
        /// Values that the run measures before a step, if `evaluation.every` divides the number of steps before it.
        RUN:
        SUCCESS = "eval_success", "share, 0 to 1", "success on held-out tasks with the weights before this step, \
            decoded greedily";
        SUCCESS_SAMPLED = "eval_success_sampled", "share, 0 to 1", "the same, sampled at temperature 1";
        REWARD = "eval_reward", "", "mean reward of the greedy episodes, over their seats with the run's policy";
    }
}

/// Values of one training step, in the order of their line in `metrics.jsonl`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepMetrics(Vec<(String, f64)>);

impl<const COUNT: usize> From<[(StepMetric, f64); COUNT]> for StepMetrics {
    fn from(values: [(StepMetric, f64); COUNT]) -> Self {
        Self(values.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect())
    }
}

impl StepMetrics {
    /// Adds a value.
    pub fn push(&mut self, metric: StepMetric, value: f64) {
        self.0.push((metric.name.to_owned(), value));
    }

    /// Adds the values of `other` after the present ones.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The values without this one.
    #[must_use]
    pub fn without(self, metric: StepMetric) -> Self {
        Self(self.0.into_iter().filter(|(name, _)| name != metric.name).collect())
    }

    /// The values with the name of a seat before each name, as in `o/loss`.
    #[must_use]
    pub fn of_seat(self, seat: &str) -> Self {
        self.below(seat)
    }

    /// The values with the name of an environment before each name, as in `lake/reward`.
    #[must_use]
    pub fn of_environment(self, environment: &str) -> Self {
        self.below(environment)
    }

    /// The values with the owner and the kind of failures before each name, as in `tool.search.trap/failed_calls`.
    #[must_use]
    pub fn of_failures(self, at: &Boundary, kind: FailureKind) -> Self {
        let owner = [Some(at.class()), at.plugin()].into_iter().flatten().collect::<Vec<_>>().join(".");
        self.below(&format!("{owner}.{kind}"))
    }

    fn below(self, owner: &str) -> Self {
        Self(self.0.into_iter().map(|(name, value)| (format!("{owner}/{name}"), value)).collect())
    }

    /// The mean of each value over the steps that have it, in the order in which the values first occur.
    #[must_use]
    pub fn mean(steps: &[Self]) -> Self {
        let mut sums: Vec<(String, f64, f64)> = Vec::new();
        for (name, value) in steps.iter().flat_map(Self::iter) {
            match sums.iter_mut().find(|(known, ..)| known == name) {
                Some((_, sum, count)) => {
                    *sum += value;
                    *count += 1.0;
                }
                None => sums.push((name.to_owned(), value, 1.0)),
            }
        }
        Self(sums.into_iter().map(|(name, sum, count)| (name, sum / count)).collect())
    }

    /// The value with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Whether the step changed the weights of a model.
    #[must_use]
    pub fn has_update(&self) -> bool {
        has_update(&self.iter())
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> + Clone {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// Owner and kind of failures in words, such as "tool `search`: trap", of the name of a value that counts them; `None` of
/// another name.
#[must_use]
pub fn failures_of(name: &str) -> Option<String> {
    let cause = name.strip_suffix(rl::FAILED_CALLS.name)?.strip_suffix('/')?;
    let (owner, kind) = cause.rsplit_once('.')?;
    let boundary = match owner.split_once('.') {
        Some((class, plugin)) => Boundary::of_class(class, plugin),
        None => Boundary::of_class(owner, ""),
    };
    Some(format!("{}: {kind}", boundary?))
}

/// Whether a step with these values changed the weights of a model. Values that count no updates are those of a change.
pub fn has_update<'a>(values: &(impl Iterator<Item = (&'a str, f64)> + Clone)) -> bool {
    let of_models = |wanted: StepMetric| {
        let is_wanted = move |name: &str| name.rsplit('/').next() == Some(wanted.name);
        values.clone().filter(move |(name, _)| is_wanted(name)).map(|(_, value)| value)
    };
    let mut updates = of_models(rl::UPDATES).peekable();
    if updates.peek().is_some() {
        return updates.any(|updates| updates > 0.0);
    }
    let mut skipped = of_models(sft::SKIPPED_UPDATES).peekable();
    skipped.peek().is_none() || skipped.any(|skipped| skipped == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `metrics.jsonl` is a JSON object, so that no name may occur twice in it.
    #[test]
    fn names_of_a_stage_are_unique() {
        for tables in [
            [sft::RUN, sft::TRAINER, evaluation::RUN],
            [best_of_n::RUN, sft::TRAINER, evaluation::RUN],
            [rl::RUN, rl::TRAINER, evaluation::RUN],
        ] {
            let mut names: Vec<&str> = tables.concat().iter().map(|row| row.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn failures_are_named_by_owner_and_kind() {
        let named = |at: &Boundary| {
            let values = StepMetrics::from([(rl::FAILED_CALLS, 2.0)]).of_failures(at, FailureKind::ResultSize);
            values.iter().map(|(name, _)| name.to_owned()).collect::<String>()
        };
        let tool = Boundary::Tool("a.b".to_owned());
        assert_eq!(named(&tool), "tool.a.b.result-size/failed_calls");
        let all = [Boundary::Environment("e".to_owned()), tool, Boundary::Reward("r".to_owned())];
        for at in all.into_iter().chain([Boundary::Agent, Boundary::Model, Boundary::Host]) {
            assert_eq!(failures_of(&named(&at)), Some(format!("{at}: result-size")));
        }
        assert_eq!(
            (failures_of("failures"), failures_of("lake/failures"), failures_of("x.trap/failed_calls")),
            (None, None, None)
        );
    }

    #[test]
    fn a_mean_is_over_the_steps_that_have_the_value() {
        let loss = |loss: f64| StepMetrics::from([(sft::LOSS, loss)]);
        let skipped = StepMetrics::from([(sft::SKIPPED_UPDATES, 1.0)]);
        let mean = StepMetrics::mean(&[loss(1.0), skipped, loss(3.0)]);
        assert_eq!(mean.iter().collect::<Vec<_>>(), [("loss", 2.0), ("skipped_updates", 1.0)]);
        assert_eq!(StepMetrics::mean(&[]), StepMetrics::default());
    }

    #[test]
    fn a_step_without_an_update_of_any_model_has_none() {
        let of = |values: &[(StepMetric, f64)], seat: &[(StepMetric, f64)]| {
            let (mut own, mut other) = (StepMetrics::default(), StepMetrics::default());
            values.iter().for_each(|(metric, value)| own.push(*metric, *value));
            seat.iter().for_each(|(metric, value)| other.push(*metric, *value));
            own.append(other.of_seat("o"));
            own.has_update()
        };
        assert!(of(&[], &[]) && of(&[(rl::UPDATES, 2.0)], &[]) && of(&[(sft::SKIPPED_UPDATES, 0.0)], &[]));
        assert!(!of(&[(rl::UPDATES, 0.0), (rl::SKIPPED_UPDATES, 0.0)], &[]));
        assert!(!of(&[(sft::SKIPPED_UPDATES, 1.0)], &[]));
        assert!(of(&[(rl::UPDATES, 0.0)], &[(rl::UPDATES, 1.0)]) && !of(&[(rl::UPDATES, 0.0)], &[(rl::UPDATES, 0.0)]));
        assert!(of(&[(rl::UPDATES, 1.0), (rl::SKIPPED_UPDATES, 1.0)], &[]));
    }

    #[test]
    fn a_seat_is_a_prefix() {
        let mut values = StepMetrics::from([(rl::REWARD, 0.5)]);
        values.append(StepMetrics::from([(rl::LOSS, 0.25)]).of_seat("o"));
        assert_eq!(values.iter().collect::<Vec<_>>(), [("reward", 0.5), ("o/loss", 0.25)]);
        assert_eq!((values.get("o/loss"), values.get("loss")), (Some(0.25), None));
    }
}
