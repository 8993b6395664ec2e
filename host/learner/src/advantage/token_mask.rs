//! Tokens that enter the loss, and the factors of their surrogate and entropy terms.

use std::collections::BTreeMap;

use gymkhana_record::Stream;

use super::comparison::{mean, quantile};
use super::input::{AdvantageInput, TurnPart};
use super::state::AdvantageState;
use gymkhana_algorithm::{
    AboveCap, Algorithm, BandMode, BandUnit, CapLevel, CovarianceClip, EntropyBand, GroupBy, Mask, OffPolicy,
};
use gymkhana_engine::{Column, TokenStats};

/// Cost of leaving the band in the literal mode of [`EntropyBand`]: the constant of EPO's released code.
const LITERAL_PENALTY: f64 = 0.1;

/// Applies masks and the bounds on staleness and ratio. `version` is the weight version at the start of the step.
pub(super) fn mask_tokens(batch: &mut [AdvantageInput], flags: &Algorithm, version: u32) {
    for input in batch.iter_mut() {
        let void = flags.masks(Mask::VoidTurn) && input.turns.iter().any(|turn| turn.void);
        let cut = flags.masks(Mask::CutEpisode) && input.turns.iter().any(|turn| turn.cut);
        if void || cut || (flags.masks(Mask::OverLong) && !input.finished) {
            input.mask_all();
        }
        if flags.masks(Mask::CutReply) {
            for turn in input.turns.iter().filter(|turn| turn.cut) {
                input.tokens.fill(Column::LossMask, turn.tokens.clone(), 0.0);
            }
        }
    }
    if let Some(share) = flags.entropy_quantile {
        mask_low_entropy_turns(batch, share);
    }
    if let Some(off_policy) = flags.off_policy {
        correct(batch, off_policy, version);
    }
}

/// Masks groups whose compared members all have the same reward.
pub(super) fn mask_zero_variance(batch: &mut [AdvantageInput], group_by: GroupBy) {
    let key = |input: &AdvantageInput| (input.group, group_by.key(input.seat));
    let mut spans: BTreeMap<(usize, u32), (f64, f64)> = BTreeMap::new();
    for input in batch.iter() {
        let (least, most) = spans.entry(key(input)).or_insert((f64::INFINITY, f64::NEG_INFINITY));
        (*least, *most) = (least.min(input.reward), most.max(input.reward));
    }
    for input in batch.iter_mut() {
        let (least, most) = spans[&key(input)];
        if least == most {
            input.mask_all();
        }
    }
}

fn turn_entropy(tokens: &TokenStats, turn: &TurnPart) -> f64 {
    mean(&tokens.column(Column::Entropy)[turn.tokens.clone()])
}

/// Masks turns whose mean entropy is below a quantile of the batch's.
fn mask_low_entropy_turns(batch: &mut [AdvantageInput], share: f64) {
    let mut entropies = Vec::new();
    for input in batch.iter() {
        let sampled = input.turns.iter().filter(|turn| !turn.tokens.is_empty());
        entropies.extend(sampled.map(|turn| turn_entropy(&input.tokens, turn)));
    }
    let bound = quantile(entropies, share);
    for AdvantageInput { turns, tokens, .. } in batch {
        for turn in turns {
            if turn_entropy(tokens, turn) < bound {
                tokens.fill(Column::LossMask, turn.tokens.clone(), 0.0);
            }
        }
    }
}

/// Sets importance weights and applies the veto and the bound on staleness.
pub(super) fn correct(batch: &mut [AdvantageInput], off_policy: OffPolicy, version: u32) {
    for input in batch.iter_mut() {
        let tokens = &mut input.tokens;
        let log_ratio =
            |tokens: &TokenStats, token| tokens.get(Column::Proximal, token) - tokens.get(Column::Behaviour, token);
        let all = 0..tokens.len();
        let ratios: Vec<f64> = all.clone().map(|token| log_ratio(tokens, token).exp()).collect();
        if off_policy.veto.is_some_and(|veto| ratios.iter().any(|ratio| *ratio < veto)) {
            tokens.fill(Column::LossMask, all.clone(), 0.0);
        }
        if let Some(oldest) = off_policy.stale_steps {
            let age = |token| f64::from(version) - tokens.get(Column::Version, token);
            let stale: Vec<usize> = all.filter(|token| age(*token) > f64::from(oldest)).collect();
            stale.into_iter().for_each(|token| tokens.set(Column::LossMask, token, 0.0));
        }
        let logs: Vec<f64> = tokens.in_loss().map(|token| log_ratio(tokens, token)).collect();
        for (token, ratio) in ratios.into_iter().enumerate() {
            let weight = match off_policy.level {
                CapLevel::Token => ratio,
                CapLevel::Sequence => logs.iter().sum::<f64>().exp(),
                CapLevel::Geometric => mean(&logs).exp(),
            };
            let correction = match off_policy.mode {
                AboveCap::Truncate => weight.min(off_policy.cap),
                AboveCap::Mask if weight > off_policy.cap => 0.0,
                AboveCap::Mask => weight,
            };
            tokens.set(Column::Correction, token, correction);
        }
    }
}

/// Masks episodes all of whose advantages are 0.
pub(super) fn mask_zero_advantage(batch: &mut [AdvantageInput]) {
    for input in batch.iter_mut() {
        if input.tokens.column(Column::Advantage).iter().all(|advantage| *advantage == 0.0) {
            input.mask_all();
        }
    }
}

/// Sets the surrogate's factor to 0 for a few of the tokens with a high covariance of advantage and log-probability.
pub(super) fn clip_covariance(batch: &mut [AdvantageInput], clip: CovarianceClip, stream: &mut Stream) {
    let in_loss = |column| -> Vec<f64> { batch.iter().flat_map(|input| input.tokens.column_in_loss(column)).collect() };
    let (advantages, log_probs) = (in_loss(Column::Advantage), in_loss(Column::Proximal));
    let (advantage, log_prob) = (mean(&advantages), mean(&log_probs));
    let most = (clip.share * advantages.len() as f64) as usize;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (index, AdvantageInput { tokens, .. }) in batch.iter().enumerate() {
        let covariance = |token: usize| {
            (tokens.get(Column::Advantage, token) - advantage) * (tokens.get(Column::Proximal, token) - log_prob)
        };
        let inside = |token: &usize| covariance(*token) > clip.low && covariance(*token) < clip.high;
        found.extend(tokens.in_loss().filter(inside).map(|token| (index, token)));
    }
    stream.shuffle(&mut found);
    for (index, token) in found.into_iter().take(most) {
        batch[index].tokens.set(Column::Correction, token, 0.0);
    }
}

/// Sets the cost of the band's units whose mean entropy left the band of their turn.
pub(super) fn band(batch: &mut [AdvantageInput], band: EntropyBand, memory: &mut AdvantageState) {
    let turns = batch.iter().map(|input| input.turns.len()).max().unwrap_or(0);
    for turn in 0..turns {
        let units = band_units(batch, turn, band.unit);
        let entropies = |(input, tokens): &(usize, Vec<usize>)| -> Vec<f64> {
            tokens.iter().map(|token| batch[*input].tokens.get(Column::Entropy, *token)).collect()
        };
        let found: Vec<Vec<f64>> = units.iter().map(entropies).collect();
        let all = found.concat();
        if all.is_empty() {
            continue;
        }
        let Some(before) = memory.entropy(turn, mean(&all)).filter(|_| turn >= band.from_turn as usize) else {
            continue;
        };
        let (low, high) = (band.low * before, band.high * before);
        for ((input, tokens), entropies) in units.into_iter().zip(found) {
            let now = if band.unit == BandUnit::Batch { mean(&all) } else { mean(&entropies) };
            let (slope, offset) = match band.mode {
                _ if (low..=high).contains(&now) => continue,
                BandMode::Literal => (0.0, LITERAL_PENALTY),
                BandMode::Hinge if now < low => (-1.0, low),
                BandMode::Hinge => (1.0, -high),
            };
            for token in tokens {
                batch[input].tokens.set(Column::BandSlope, token, slope);
                batch[input].tokens.set(Column::BandOffset, token, offset);
            }
        }
    }
}

/// The tokens in the loss of all turns of this number, by input and unit. The unit `batch` is listed by input.
fn band_units(batch: &[AdvantageInput], turn: usize, unit: BandUnit) -> Vec<(usize, Vec<usize>)> {
    let mut units = Vec::new();
    for (index, input) in batch.iter().enumerate() {
        let Some(part) = input.turns.get(turn) else { continue };
        let tokens = part.tokens.clone().filter(|token| input.tokens.is_in_loss(*token));
        match unit {
            BandUnit::Token => units.extend(tokens.map(|token| (index, vec![token]))),
            BandUnit::Batch | BandUnit::Turn => units.push((index, tokens.collect())),
        }
    }
    units
}
