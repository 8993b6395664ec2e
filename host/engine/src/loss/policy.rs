//! The loss of an algorithm: surrogate, divergence from the reference policy, entropy; and that of demonstrations.

use gymkhana_algorithm::{Algorithm, Estimator, Kl, KlPlace};

use super::ratio::Ratios;
use super::surrogate::surrogate;
use super::{Coefficients, Evaluated, LossSums, TokenNumbers, TokenRows};
use crate::token_stats::Column;

/// Negative log-likelihood of each token times its share.
pub(super) fn supervised(found: &TokenNumbers, rows: &TokenRows<'_>) -> Evaluated {
    let mut evaluated = Evaluated::default();
    for (row, log_prob) in found.log_probs.iter().enumerate() {
        let share = rows.get(Column::LossWeight, row);
        let loss = -share * log_prob;
        evaluated.sums.loss += loss;
        evaluated.sums.loss_by_expert += loss * rows.get(Column::Advantage, row);
        evaluated.by.log_probs.push(-share);
    }
    evaluated
}

/// The loss of an algorithm. `found` must hold entropies or divergences where the flags use them.
pub(super) fn policy(flags: &Algorithm, version: u32, found: &TokenNumbers, rows: &TokenRows<'_>) -> Evaluated {
    let ratios = Ratios::new(found, rows);
    let mut sums = LossSums::default();
    let mut by_log_ratios = Vec::with_capacity(rows.len());
    let mut direct = Vec::with_capacity(rows.len());
    for (row, (log_prob, ratio)) in found.log_probs.iter().zip(&ratios.of).enumerate() {
        let share = rows.get(Column::LossWeight, row);
        let term = surrogate(flags.surrogate, *log_prob, *ratio, rows.get(Column::Advantage, row));
        let factor = share * rows.get(Column::Correction, row);
        let own = found.divergences.as_ref().map_or(term.value, |divergences| divergences[row]);
        let penalty = Penalty::of(flags, rows, row, *log_prob);
        sums.loss += factor * own + share * penalty.loss;
        by_log_ratios.push(factor * term.by_log_ratio);
        direct.push(factor * term.by_log_prob + share * penalty.by_log_prob);
        count(&mut sums, rows, row, *log_prob, version);
        sums.clipped += rows.counted(row) * f64::from(u8::from(term.is_clipped));
        sums.from_reference += rows.counted(row) * penalty.divergence;
    }
    let mut by = Coefficients { log_probs: ratios.pull(&by_log_ratios), ..Coefficients::default() };
    by.log_probs.iter_mut().zip(&direct).for_each(|(sum, direct)| *sum += direct);
    by.divergences = found.divergences.as_ref().map(|divergences| {
        let factor = |row| rows.get(Column::LossWeight, row) * rows.get(Column::Correction, row);
        (0..divergences.len()).map(factor).collect()
    });
    by.entropies = found.entropies.as_ref().map(|entropies| add_entropies(flags, entropies, rows, &mut sums));
    Evaluated { by, sums }
}

/// Divergence of a token from the reference policy, and its part of the loss without the token's share.
#[derive(Default)]
struct Penalty {
    divergence: f64,
    loss: f64,
    by_log_prob: f64,
}

impl Penalty {
    fn of(flags: &Algorithm, rows: &TokenRows<'_>, row: usize, log_prob: f64) -> Self {
        if !rows.has(Column::Reference) {
            return Self::default();
        }
        let estimator = flags.kl.map_or(Estimator::K3, |kl| kl.estimator);
        let (divergence, slope) = divergence(estimator, log_prob, rows.get(Column::Reference, row));
        let weight = |kl: Kl| kl.beta * rows.get(Column::KlWeight, row);
        let weight = flags.penalty_in(KlPlace::Loss).map_or(0.0, weight);
        Self { divergence, loss: weight * divergence, by_log_prob: weight * slope }
    }
}

/// Adds the bonus on entropies and the cost of leaving their band to the loss. Returns the derivatives.
fn add_entropies(flags: &Algorithm, entropies: &[f64], rows: &TokenRows<'_>, sums: &mut LossSums) -> Vec<f64> {
    let band = flags.entropy_band.map_or(0.0, |band| flags.entropy_bonus * band.weight);
    let each = entropies.iter().enumerate().map(|(row, entropy)| {
        let [slope, offset] = [Column::BandSlope, Column::BandOffset].map(|column| rows.get(column, row));
        let bonus = -flags.entropy_bonus * rows.get(Column::LossWeight, row);
        sums.loss += bonus * entropy + band * (slope * entropy + offset);
        bonus + band * slope
    });
    each.collect()
}

/// Adds a token's divergence from the policies before it.
fn count(sums: &mut LossSums, rows: &TokenRows<'_>, row: usize, log_prob: f64, version: u32) {
    let counted = rows.counted(row);
    sums.from_proximal += counted * k3(log_prob, rows.get(Column::Proximal, row));
    if rows.get(Column::Version, row) == f64::from(version) {
        sums.on_policy += counted;
        sums.on_policy_divergence += counted * k3(log_prob, rows.get(Column::Behaviour, row));
    }
}

/// k3 estimate of the divergence from `other` in nats: `exp(other - own) - (other - own) - 1`, at least 0.
fn k3(own: f64, other: f64) -> f64 {
    let difference = other - own;
    difference.exp() - difference - 1.0
}

/// Estimate of the divergence from `other` in nats by one sampled token (Schulman's k1, k2 and k3), and its derivative by the own log-probability.
fn divergence(estimator: Estimator, own: f64, other: f64) -> (f64, f64) {
    let difference = own - other;
    match estimator {
        Estimator::K1 => (difference, 1.0),
        Estimator::K2 => (difference * difference / 2.0, difference),
        Estimator::K3 => (k3(own, other), 1.0 - (-difference).exp()),
    }
}
