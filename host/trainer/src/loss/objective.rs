//! The loss of a micro-batch: surrogate, penalty for leaving the reference, entropy.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use super::{divergence, k3_divergence, lost_gradient, ratios, surrogate};
use crate::algorithm::{Algorithm, KlPlace, Ratio};

/// What is known of the tokens of a micro-batch before their new log-probabilities are. Absent columns count nothing.
#[derive(Debug)]
pub struct Inputs {
    /// Shares of the minibatch's loss.
    pub weights_N: Tensor,
    /// Log-probabilities under the weights to which the policy is to stay near.
    pub proximal_N: Tensor,
    /// Advantages.
    pub advantages_N: Tensor,
    /// Factors of the surrogate.
    pub correction_N: Option<Tensor>,
    /// Log-probabilities under the reference.
    pub reference_N: Option<Tensor>,
    /// What each token's divergence from it weighs, beside its share.
    pub kl_weights_N: Option<Tensor>,
    /// Slope and offset of what leaving the entropy band costs, shares included.
    pub band_N: Option<[Tensor; 2]>,
    /// The numbers, from 0, of the turns or sequences whose tokens share a ratio.
    pub units_N: Option<Tensor>,
}

impl Inputs {
    /// A cut of some tokens. Where tokens share ratios, nothing may be cut off.
    #[must_use]
    pub fn narrow(&self, start: i64, length: i64) -> Self {
        let cut = |tensor: &Tensor| tensor.narrow(0, start, length);
        let maybe = |tensor: &Option<Tensor>| tensor.as_ref().map(cut);
        Self {
            weights_N: cut(&self.weights_N),
            proximal_N: cut(&self.proximal_N),
            advantages_N: cut(&self.advantages_N),
            correction_N: maybe(&self.correction_N),
            reference_N: maybe(&self.reference_N),
            kl_weights_N: maybe(&self.kl_weights_N),
            band_N: self.band_N.as_ref().map(|[slope, offset]| [cut(slope), cut(offset)]),
            units_N: maybe(&self.units_N),
        }
    }
}

/// A loss and what is told of it.
#[derive(Debug)]
pub struct Objective {
    /// What is minimised.
    pub loss: Tensor,
    /// Sums over tokens: the loss, tokens whose gradient was lost, k3 divergence from the proximal policy, estimated
    /// divergence from the reference.
    pub sums: Tensor,
}

/// The loss of a micro-batch. `entropies` are needed where the flags speak of entropy.
pub fn objective(flags: &Algorithm, log_probs_N: &Tensor, entropies_N: Option<&Tensor>, inputs: &Inputs) -> Objective {
    let units_N = inputs.units_N.as_ref().filter(|_| flags.ratio.is_some_and(|ratio| ratio != Ratio::Token));
    let ratios_N = ratios(log_probs_N, &inputs.proximal_N, units_N);
    let mut terms = vec![];
    let surrogate_N = surrogate(flags.surrogate, log_probs_N, &ratios_N, &inputs.advantages_N);
    terms.push(match &inputs.correction_N {
        Some(correction_N) => surrogate_N * correction_N,
        None => surrogate_N,
    });
    let mut from_reference = Tensor::zeros([], (Kind::Float, log_probs_N.device()));
    if let (Some(kl), Some(reference_N)) = (flags.penalty_in(KlPlace::Loss), &inputs.reference_N) {
        let divergence_N = divergence(log_probs_N, reference_N, kl.estimator);
        from_reference = divergence_N.sum(Kind::Float);
        terms.push(match &inputs.kl_weights_N {
            Some(weights_N) => divergence_N * weights_N * kl.beta,
            None => divergence_N * kl.beta,
        });
    }
    if let Some(entropies_N) = entropies_N {
        terms.push(entropies_N * -flags.entropy_bonus);
    }
    let summed: Tensor = terms.iter().map(|term_N| (term_N * &inputs.weights_N).sum(Kind::Float)).sum();
    let loss = match (flags.entropy_band, entropies_N, &inputs.band_N) {
        (Some(band), Some(entropies_N), Some([slope_N, offset_N])) => {
            let cost = (entropies_N * slope_N + offset_N).sum(Kind::Float);
            summed + cost * (flags.entropy_bonus * band.weight)
        }
        _ => summed,
    };
    let lost = lost_gradient(flags.surrogate, &ratios_N, &inputs.advantages_N).sum(Kind::Float);
    let from_proximal = k3_divergence(log_probs_N, &inputs.proximal_N).sum(Kind::Float);
    let sums = Tensor::stack(&[&loss, &lost, &from_proximal, &from_reference], 0).detach();
    Objective { loss, sums }
}
