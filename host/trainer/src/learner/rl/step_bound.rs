//! Bound on an optimiser step: a step that moves the policy too far from where it was is shortened.
#![allow(non_snake_case)]

use std::cell::RefCell;

use tch::{Kind, TchError, Tensor};

use super::super::forward::{Pass, log_probs_of};
use crate::TrainerError;
use crate::batch::{Packed, PrefixGroup, positions};
use crate::loss::PerToken;
use crate::model::Model;

/// Positions of a minibatch that are computed again to measure its step: of a larger minibatch, evenly spaced parts.
const POSITIONS: usize = 1 << 15;

/// Log-probabilities of a minibatch's tokens before its optimiser step.
#[derive(Debug)]
pub(super) struct StepBound {
    /// Largest divergence of a step, in nats per token.
    most: f64,
    /// Log-probabilities of each part in the order of the passes, `[N]` for each of its chunks.
    before: RefCell<Vec<Vec<Tensor>>>,
}

impl StepBound {
    pub fn new(most: f64) -> Self {
        Self { most, before: RefCell::default() }
    }

    /// Begins the pass over the next part.
    pub fn begin(&self) {
        self.before.borrow_mut().push(vec![]);
    }

    /// Keeps the log-probabilities of the part's next chunk.
    pub fn keep(&self, terms: &PerToken) {
        if let Some(part) = self.before.borrow_mut().last_mut() {
            part.push(terms.log_probs_N.detach());
        }
    }

    /// Divergence of the policy from the one before the step: half of the mean squared log-ratio over the tokens of the
    /// parts, which were passed in this order, in nats per token.
    ///
    /// # Errors
    /// If a kernel cannot be started.
    pub fn divergence(&self, model: &Model, parts: &[Vec<PrefixGroup<'_>>], pass: Pass) -> Result<f64, TrainerError> {
        self.mean_half_square(model, parts, pass).map_err(TrainerError::torch("compared a step with the policy before"))
    }

    fn mean_half_square(&self, model: &Model, parts: &[Vec<PrefixGroup<'_>>], pass: Pass) -> Result<f64, TchError> {
        let stride = positions(parts).div_ceil(POSITIONS).max(1);
        let (mut sum, mut count) = (0.0, 0);
        for (part, before) in parts.iter().zip(self.before.borrow().iter()).step_by(stride) {
            let after_N = log_probs_of(model, &model.weights(), &Packed::new(part, model.device()), pass)?;
            let moved_N = after_N.f_sub(&Tensor::f_cat(before, 0)?)?;
            sum += moved_N.f_square()?.f_sum(Kind::Double)?.f_double_value(&[])?;
            count += moved_N.size()[0];
        }
        Ok(sum / 2.0 / count.max(1) as f64)
    }

    /// Share of a step with this divergence that stays near the bound. `informative` is the share of the minibatch's
    /// sequences with a gradient: a step that few of them ask for is bounded by as much less. The divergence of a small step
    /// grows with the square of its length. A divergence that is not a number leaves nothing.
    pub fn share(&self, divergence: f64, informative: f64) -> f64 {
        let most = self.most * informative;
        if divergence <= most { 1.0 } else { (most / divergence).sqrt().max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_algorithm::{Algorithm, Optimizer, RlSettings, StageModels, Surrogate, TinyModel};
    use gymkhana_record::{EpisodeRecord, Sampled, Seed, Segment};
    use tch::Device;

    use super::*;
    use crate::learner::Learner;
    use crate::learner::forward::log_probs;
    use crate::learner::from_records::episode;
    use crate::learner::layout::Batch;
    use crate::tiny;

    /// Four times the bound is twice the length. A quarter of the sequences has a quarter of the bound.
    #[test]
    fn a_long_step_is_shortened_to_the_bound() {
        let bound = StepBound::new(0.01);
        assert_eq!([0.0, 0.01, 0.04].map(|divergence| bound.share(divergence, 1.0)), [1.0, 1.0, 0.5]);
        assert_eq!([0.0025, 0.01, 0.04].map(|divergence| bound.share(divergence, 0.25)), [1.0, 0.5, 0.25]);
        assert_eq!([f64::INFINITY, f64::NAN].map(|divergence| bound.share(divergence, 1.0)), [0.0, 0.0]);
    }

    /// An episode whose reply consists of one token, eight times.
    fn said(member: u32, reward: f64, token: u32) -> EpisodeRecord {
        let mut segment = Segment::new(0);
        segment.append_given(&[1], 0);
        let sampled =
            Sampled { tokens: vec![token; 8], log_probs: vec![-5.0; 8], entropies: vec![1.0; 8], versions: vec![0; 8] };
        segment.append_sampled(&sampled, 0).expect("equal columns");
        episode(member, vec![segment], &[reward])
    }

    /// Half of the mean squared log-ratio by which one step moves a small model, and the metric of the divergence.
    fn moved(step_divergence: Option<f64>) -> (f64, Option<f64>) {
        let size = TinyModel { layers: 1, width: 8, heads: 1, kv_heads: 1, mlp: 8, context: 32 };
        let mut model = Model::zeros(tiny::config(&size).expect("a size"), 32, Device::Cpu).expect("a model");
        model.randomise(Seed(3)).expect("weights");
        let algorithm = Algorithm { surrogate: Surrogate::Plain {}, ratio: None, ..Algorithm::default() };
        let optimizer = Optimizer { learning_rate: 0.02, ..Optimizer::default() };
        let settings = RlSettings { algorithm, optimizer, step_divergence, ..RlSettings::default() };
        // The group of equal rewards is only measured.
        let groups = [vec![said(0, 1.0, 2), said(1, 0.0, 3)], vec![said(0, 1.0, 4), said(1, 1.0, 5)]];
        let batch = || Batch::new(&groups, &settings);
        let pass = Pass { temperature: 1.0, entropies: false, micro_batch_tokens: 16, activation_checkpointing: false };
        let all = |model: &Model| {
            log_probs(model, &model.weights(), &batch().all_sequences(), pass).expect("log-probabilities").concat()
        };
        let mut learner = Learner::new(&model, StageModels::default(), None).expect("a learner");
        let before = all(&model);
        let metrics = learner.rl_step(&mut model, (batch(), vec![]), &settings, Seed(1), 0).expect("a step");
        let squares =
            all(&model).iter().zip(&before).map(|(after, before)| f64::from(after - before).powi(2)).sum::<f64>();
        (squares / 2.0 / before.len() as f64, metrics.get("step_divergence"))
    }

    #[test]
    fn a_step_at_a_high_rate_moves_the_policy_by_the_bound() {
        let (unbounded, none) = moved(None);
        assert!(unbounded > 1e-3 && none.is_none(), "{unbounded}, {none:?}");
        let (loose, found) = moved(Some(1e9));
        assert_eq!(loose, unbounded);
        assert!((found.expect("measured") / unbounded - 1.0).abs() < 1e-4, "{found:?} is not {unbounded}");
        for bound in [1e-4, 1e-5] {
            // One of the two groups has a gradient.
            let (bounded, found) = moved(Some(2.0 * bound));
            // The divergence of a long step does not grow with the square of its length alone.
            assert!((0.5..2.0).contains(&(bounded / bound)), "{bounded} is not near {bound}");
            assert!((found.expect("measured") / unbounded - 1.0).abs() < 1e-4, "{found:?} is not {unbounded}");
        }
    }
}
