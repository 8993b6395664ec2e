//! Bound on an optimiser step: a step that moves the policy too far from where it was is shortened.

use gymkhana_engine::{Engine, Pass, Scorer, Sequence};

/// Positions of a minibatch that are computed again to measure its step: of a larger minibatch, evenly spaced sequences.
const POSITIONS: usize = 1 << 15;

/// Sequences with the log-probability of each target before a step, in nats.
type Before<'a> = (&'a [Sequence], &'a [Vec<f64>]);

/// Bound on a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepBound {
    /// Largest divergence of a step, in nats per token.
    most: f64,
}

impl StepBound {
    pub fn new(most: f64) -> Self {
        Self { most }
    }

    /// Divergence of the policy from the one before the step: half of the mean squared log-ratio over the tokens, in nats
    /// per token.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn divergence<E: Engine>(self, engine: &E, all: &[Before<'_>], pass: Pass) -> Result<f64, E::Error> {
        let positions: usize = all.iter().flat_map(|(sequences, _)| *sequences).map(|one| one.inputs().len()).sum();
        let stride = positions.div_ceil(POSITIONS).max(1);
        let (mut sum, mut count) = (0.0, 0);
        for (sequences, before) in all {
            let some: Vec<Sequence> = sequences.iter().step_by(stride).cloned().collect();
            let after = match &some[..] {
                [] => vec![],
                some => engine.log_probs(Scorer::Policy, some, pass)?,
            };
            for (after, before) in after.iter().zip(before.iter().step_by(stride)) {
                sum +=
                    after.iter().zip(before).map(|(after, before)| (f64::from(*after) - before).powi(2)).sum::<f64>();
                count += after.len();
            }
        }
        Ok(sum / 2.0 / count.max(1) as f64)
    }

    /// Share of a step with this divergence that stays near the bound. `informative` is the share of the minibatch's
    /// sequences with a gradient: a step that few of them ask for is bounded by as much less. The divergence of a small step
    /// grows with the square of its length. A divergence that is not a number leaves nothing.
    pub fn share(self, divergence: f64, informative: f64) -> f64 {
        let most = self.most * informative;
        if divergence <= most { 1.0 } else { (most / divergence).sqrt().max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four times the bound is twice the length. A quarter of the sequences has a quarter of the bound.
    #[test]
    fn a_long_step_is_shortened_to_the_bound() {
        let bound = StepBound::new(0.01);
        assert_eq!([0.0, 0.01, 0.04].map(|divergence| bound.share(divergence, 1.0)), [1.0, 1.0, 0.5]);
        assert_eq!([0.0025, 0.01, 0.04].map(|divergence| bound.share(divergence, 0.25)), [1.0, 0.5, 0.25]);
        assert_eq!([f64::INFINITY, f64::NAN].map(|divergence| bound.share(divergence, 1.0)), [0.0, 0.0]);
    }
}
