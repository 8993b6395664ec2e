//! Derivatives of every preset's loss against central differences.

use gymkhana_algorithm::{Algorithm, Preset, Surrogate, WhenClipped};
use proptest::prelude::*;

use super::*;
use crate::token_stats::{Column, TokenStats};

const TOKENS: usize = 6;

/// Width of a difference.
const STEP: f64 = 1e-6;

/// A table of tokens with random numbers.
fn stats() -> impl Strategy<Value = TokenStats> {
    let row = (-3.0..0.0_f64, -2.0..2.0_f64, 0.1..1.0_f64, -3.0..0.0_f64, -1.0..1.0_f64);
    prop::collection::vec(row, TOKENS).prop_map(|rows| {
        let mut stats = TokenStats::default();
        for (proximal, advantage, share, reference, slope) in rows {
            stats.push(&[
                (Column::Proximal, proximal),
                (Column::Advantage, advantage),
                (Column::LossWeight, share),
                (Column::Correction, 1.0 + share),
                (Column::Reference, reference),
                (Column::BandSlope, slope),
            ]);
        }
        stats
    })
}

/// Whether the loss is what its derivative is of: weights of some losses are constants in the derivative.
fn is_differentiable(flags: &Algorithm, at: &Evaluated) -> bool {
    match flags.surrogate {
        Surrogate::Cispo { .. } => false,
        Surrogate::Clip { when_clipped: WhenClipped::KeepGradient, .. } => at.sums.clipped == 0.0,
        _ => true,
    }
}

/// The derivatives of a preset's loss by log-probabilities and entropies are the slopes of its value.
fn check(flags: &Algorithm, stats: &TokenStats, numbers: &TokenNumbers) {
    let loss = Loss::Policy { flags, version: 0 };
    let units = loss.units().map(|units| units.number((0..TOKENS).map(|token| (token / 4, token as u32 / 2))));
    let rows = TokenRows::new(stats, units.as_deref());
    let at = loss.evaluate(numbers, &rows);
    if !is_differentiable(flags, &at) {
        return;
    }
    let slope = |by: fn(&mut TokenNumbers, usize) -> &mut f64, token| {
        let [up, down] = [STEP, -STEP].map(|step| {
            let mut moved = numbers.clone();
            *by(&mut moved, token) += step;
            loss.evaluate(&moved, &rows).sums
        });
        // The slope changes at the edge of a clip range.
        (up.clipped == down.clipped).then(|| (up.loss - down.loss) / (2.0 * STEP))
    };
    let near = |found: f64, slope: f64| {
        assert!((slope - found).abs() < 1e-6 * (1.0 + slope.abs()), "{slope} is not {found}: {flags:?}");
    };
    for token in 0..TOKENS {
        if let Some(slope) = slope(|numbers, token| &mut numbers.log_probs[token], token) {
            near(at.by.log_probs[token], slope);
        }
        if let Some(slope) = slope(|numbers, token| &mut numbers.entropies.as_mut().expect("entropies")[token], token) {
            near(at.by.entropies.as_ref().expect("entropies")[token], slope);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn derivatives_are_slopes_of_the_value(
        stats in stats(),
        log_probs in prop::collection::vec(-3.0..0.0_f64, TOKENS),
        entropies in prop::collection::vec(0.0..2.0_f64, TOKENS),
    ) {
        let numbers = TokenNumbers { entropies: Some(entropies), ..log_probs.into() };
        for name in Preset::names() {
            let flags = Preset::named(name).and_then(|preset| preset.algorithm()).expect("a preset");
            check(&flags, &stats, &numbers);
        }
    }
}

/// CISPO's weight is a constant: the derivative is that of the log-probability alone.
#[test]
fn cispo_weighs_the_log_probability() {
    let surrogate = Surrogate::Cispo { low: 0.2, high: 0.2 };
    let flags = Algorithm { surrogate, kl: None, entropy_bonus: 0.0, ..Algorithm::default() };
    let mut stats = TokenStats::neutral(2);
    stats.fill(Column::Advantage, 0..2, 3.0);
    stats.set(Column::Proximal, 1, -2.0);
    // Ratios e^-1, held at 0.8, and e, held at 1.2.
    let found =
        Loss::Policy { flags: &flags, version: 0 }.evaluate(&vec![-1.0; 2].into(), &TokenRows::new(&stats, None));
    for (found, expected) in found.by.log_probs.iter().zip([-0.8 * 3.0, -1.2 * 3.0]) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }
    assert_eq!(found.sums.clipped, 2.0);
}
