//! Which tokens are learnt from, and how much their surrogate and their entropy count.

use std::collections::BTreeMap;

use gymkhana_record::Stream;

use super::comparison::{mean, quantile};
use super::input::{AdvantageInput, Token, TurnPart};
use super::memory::Memory;
use crate::algorithm::{Algorithm, BandMode, CapLevel, CovarianceClip, EntropyBand, GroupBy, Mask, OffPolicy};

/// What 0.1 is in the literal mode of [`EntropyBand`]: the number in the released code.
const LITERAL_PENALTY: f64 = 0.1;

/// Leaves out what masks and bounds on age and ratio say. `version` is the one with which the step begins.
pub(super) fn mask_tokens(batch: &mut [AdvantageInput], flags: &Algorithm, version: u32) {
    for trajectory in batch.iter_mut() {
        let void = flags.masks(Mask::VoidTurn) && trajectory.turns.iter().any(|turn| turn.void);
        if void || (flags.masks(Mask::OverLong) && !trajectory.finished) {
            trajectory.mask_tokens();
        }
    }
    if let Some(share) = flags.entropy_quantile {
        mask_low_entropy_turns(batch, share);
    }
    if let Some(off_policy) = flags.off_policy {
        correct(batch, off_policy, version);
    }
}

/// Groups in which those who are compared all earned the same.
pub(super) fn mask_zero_variance(batch: &mut [AdvantageInput], group_by: GroupBy) {
    let key = |trajectory: &AdvantageInput| (trajectory.group, group_by.key(trajectory.seat));
    let mut spans: BTreeMap<(usize, u32), (f64, f64)> = BTreeMap::new();
    for trajectory in batch.iter() {
        let (least, most) = spans.entry(key(trajectory)).or_insert((f64::INFINITY, f64::NEG_INFINITY));
        (*least, *most) = (least.min(trajectory.reward), most.max(trajectory.reward));
    }
    for trajectory in batch.iter_mut() {
        let (least, most) = spans[&key(trajectory)];
        if least == most {
            trajectory.mask_tokens();
        }
    }
}

fn turn_entropy(turn: &TurnPart) -> f64 {
    mean(&turn.tokens.iter().map(|token| token.entropy).collect::<Vec<_>>())
}

/// Turns of which the policy was more certain than of most.
fn mask_low_entropy_turns(batch: &mut [AdvantageInput], share: f64) {
    let sampled = |turn: &&TurnPart| !turn.tokens.is_empty();
    let turns = batch.iter().flat_map(|trajectory| &trajectory.turns);
    let bound = quantile(turns.filter(sampled).map(turn_entropy).collect(), share);
    for turn in batch.iter_mut().flat_map(|trajectory| &mut trajectory.turns) {
        if turn_entropy(turn) < bound {
            turn.tokens.iter_mut().for_each(|token| token.learnt = false);
        }
    }
}

/// Truncated weights of importance, the veto and the bound on age.
fn correct(batch: &mut [AdvantageInput], off_policy: OffPolicy, version: u32) {
    for trajectory in batch.iter_mut() {
        let ratio = |token: &Token| (token.proximal - token.behaviour).exp();
        if off_policy.veto.is_some_and(|veto| trajectory.tokens().any(|token| ratio(token) < veto)) {
            trajectory.mask_tokens();
        }
        if let Some(oldest) = off_policy.stale_steps {
            let stale = |token: &&mut Token| version.saturating_sub(token.version) > oldest;
            trajectory.tokens_mut().filter(stale).for_each(|token| token.learnt = false);
        }
        let logs: f64 = trajectory.learnt().map(|token| token.proximal - token.behaviour).sum();
        let whole = logs.exp().min(off_policy.cap);
        for token in trajectory.tokens_mut() {
            token.correction = match off_policy.level {
                CapLevel::Token => ratio(token).min(off_policy.cap),
                CapLevel::Sequence => whole,
            };
        }
    }
}

/// Episodes without any advantage.
pub(super) fn mask_zero_advantage(batch: &mut [AdvantageInput]) {
    for trajectory in batch.iter_mut() {
        if trajectory.tokens().all(|token| token.advantage == 0.0) {
            trajectory.mask_tokens();
        }
    }
}

/// Takes the surrogate from a few of the tokens that would move the policy most.
pub(crate) fn clip_covariance(batch: &mut [AdvantageInput], clip: CovarianceClip, stream: &mut Stream) {
    let learnt = || batch.iter().flat_map(AdvantageInput::learnt);
    let advantage = mean(&learnt().map(|token| token.advantage).collect::<Vec<_>>());
    let log_prob = mean(&learnt().map(|token| token.proximal).collect::<Vec<_>>());
    let most = (clip.share * learnt().count() as f64) as usize;
    let covariance = |token: &Token| (token.advantage - advantage) * (token.proximal - log_prob);
    let mut found: Vec<&mut Token> = batch
        .iter_mut()
        .flat_map(AdvantageInput::tokens_mut)
        .filter(|token| token.learnt && covariance(token) > clip.low && covariance(token) < clip.high)
        .collect();
    stream.shuffle(&mut found);
    found.into_iter().take(most).for_each(|token| token.correction = 0.0);
}

/// Sets what the entropies of turns cost that left their band.
pub(super) fn band(batch: &mut [AdvantageInput], band: EntropyBand, memory: &mut Memory) {
    let turns = batch.iter().map(|trajectory| trajectory.turns.len()).max().unwrap_or(0);
    for turn in 0..turns {
        let of_turn = batch.iter().filter_map(|trajectory| trajectory.turns.get(turn)).flat_map(|turn| &turn.tokens);
        let entropies: Vec<f64> = of_turn.filter(|token| token.learnt).map(|token| token.entropy).collect();
        if entropies.is_empty() {
            continue;
        }
        let now = mean(&entropies);
        let Some(before) = memory.entropy(turn, now).filter(|_| turn >= band.from_turn as usize) else { continue };
        let (low, high) = (band.low * before, band.high * before);
        let cost = match band.mode {
            _ if (low..=high).contains(&now) => continue,
            BandMode::Literal => (0.0, LITERAL_PENALTY),
            BandMode::Hinge if now < low => (-1.0, low),
            BandMode::Hinge => (1.0, -high),
        };
        let tokens = batch.iter_mut().filter_map(|trajectory| trajectory.turns.get_mut(turn));
        tokens.flat_map(|turn| &mut turn.tokens).for_each(|token| token.band = cost);
    }
}
