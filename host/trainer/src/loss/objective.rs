//! Loss of a micro-batch: surrogate, divergence from the reference policy, entropy.
#![allow(non_snake_case)]

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::{PerToken, clipped, divergence, k3_divergence, ratios, surrogate};
use crate::token_stats::Column;
use gymkhana_algorithm::{Algorithm, Estimator, KlPlace, Ratio};

/// Numbers of a micro-batch's tokens that are known before the forward pass. Absent columns are neutral.
#[derive(Debug)]
pub struct Inputs {
    columns: BTreeMap<Column, Tensor>,
    /// Indices, from 0, of the turns or sequences whose tokens share a ratio, `[N]`.
    units_N: Option<Tensor>,
}

impl Inputs {
    /// Columns of shape `[N]`, and the units that share a ratio.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = (Column, Tensor)>, units_N: Option<Tensor>) -> Self {
        Self { columns: columns.into_iter().collect(), units_N }
    }

    /// A column, `[N]`; `None` where every token is neutral.
    #[must_use]
    pub fn get(&self, column: Column) -> Option<&Tensor> {
        self.columns.get(&column)
    }

    /// A column, `[N]`, filled with the neutral value where it is absent.
    pub fn get_or_neutral(&self, column: Column, like_N: &Tensor) -> Tensor {
        self.get(column).map_or_else(|| like_N.detach().full_like(column.neutral()), Tensor::shallow_clone)
    }

    /// A slice of the tokens. Units that share a ratio must not be split.
    #[must_use]
    pub fn narrow(&self, start: i64, length: i64) -> Self {
        let cut = |tensor: &Tensor| tensor.narrow(0, start, length);
        let columns = self.columns.iter().map(|(column, tensor)| (*column, cut(tensor)));
        Self::new(columns, self.units_N.as_ref().map(cut))
    }
}

/// A loss and the sums that are reported with it.
#[derive(Debug)]
pub struct Objective {
    /// The scalar to minimise.
    pub loss: Tensor,
    /// Sums over tokens, copies left out but in the loss, `[4]`: the loss, tokens whose ratio a bound of the surrogate replaced, k3 divergence from the
    /// proximal policy, and estimated divergence from the reference policy where one is known.
    pub sums: Tensor,
}

/// Loss of a micro-batch. The terms must hold entropies or divergences where the flags use them.
pub fn objective(flags: &Algorithm, terms: &PerToken, inputs: &Inputs) -> Objective {
    let (log_probs_N, entropies_N) = (&terms.log_probs_N, terms.entropies_N.as_ref());
    let units_N = inputs.units_N.as_ref().filter(|_| flags.ratio.is_some_and(|ratio| ratio != Ratio::Token));
    let of = |column| inputs.get_or_neutral(column, log_probs_N);
    let (proximal_N, advantages_N) = (of(Column::Proximal), of(Column::Advantage));
    let weights_N = of(Column::LossWeight);
    let ratios_N = ratios(log_probs_N, &proximal_N, units_N);
    let mut losses = vec![];
    let surrogate_N = match &terms.divergences_N {
        Some(divergences_N) => divergences_N.shallow_clone(),
        None => surrogate(flags.surrogate, log_probs_N, &ratios_N, &advantages_N),
    };
    losses.push(match inputs.get(Column::Correction) {
        Some(correction_N) => surrogate_N * correction_N,
        None => surrogate_N,
    });
    let sum = |numbers_N: &Tensor| match inputs.get(Column::Copy) {
        Some(copies_N) => (numbers_N * copies_N.eq(0.0)).sum(Kind::Float),
        None => numbers_N.sum(Kind::Float),
    };
    let mut from_reference = Tensor::zeros([], (Kind::Float, log_probs_N.device()));
    if let Some(reference_N) = inputs.get(Column::Reference) {
        let estimator = flags.kl.map_or(Estimator::K3, |kl| kl.estimator);
        let divergence_N = divergence(log_probs_N, reference_N, estimator);
        from_reference = sum(&divergence_N);
        if let Some(kl) = flags.penalty_in(KlPlace::Loss) {
            losses.push(match inputs.get(Column::KlWeight) {
                Some(kl_weights_N) => divergence_N * kl_weights_N * kl.beta,
                None => divergence_N * kl.beta,
            });
        }
    }
    if let Some(entropies_N) = entropies_N {
        losses.push(entropies_N * -flags.entropy_bonus);
    }
    let summed: Tensor = losses.iter().map(|losses_N| (losses_N * &weights_N).sum(Kind::Float)).sum();
    let left_band = [Column::BandSlope, Column::BandOffset].iter().any(|column| inputs.get(*column).is_some());
    let loss = match (flags.entropy_band, entropies_N) {
        (Some(band), Some(entropies_N)) if left_band => {
            let cost = (entropies_N * of(Column::BandSlope) + of(Column::BandOffset)).sum(Kind::Float);
            summed + cost * (flags.entropy_bonus * band.weight)
        }
        _ => summed,
    };
    let clipped = sum(&clipped(flags.surrogate, &ratios_N, &advantages_N));
    let from_proximal = sum(&k3_divergence(log_probs_N, &proximal_N));
    let sums = Tensor::stack(&[&loss, &clipped, &from_proximal, &from_reference], 0).detach();
    Objective { loss, sums }
}
