//! Advantages: how much better each sampled token did than expected, from plain numbers and without tensors.
//!
//! [`compute`] goes through a batch once: what is taken off rewards, what is left out, credit of turns against their
//! baselines, and what is done to advantages at last. Each step is a module.

mod comparison;
mod credit;
mod gae;
mod input;
mod memory;
mod penalty;
mod token_mask;

use std::collections::BTreeMap;

pub use comparison::Comparison;
pub(crate) use comparison::quantile;
use comparison::{deviation, mean, whitened};
use gymkhana_record::Stream;
pub use input::{AdvantageInput, Token, TurnPart};
pub use memory::Memory;
pub(crate) use token_mask::clip_covariance;

use crate::algorithm::{Algorithm, KlPlace, Mask, Scale, Whiten};

/// Sets what is found of every token of a batch. `version` is the weights' with which the step begins; `stream` is drawn
/// from where the flags leave something to chance.
pub fn compute(
    batch: &mut [AdvantageInput],
    flags: &Algorithm,
    memory: &mut Memory,
    version: u32,
    stream: &mut Stream,
) {
    // Before anything is taken off: a group of equals stays one, however long its episodes are.
    if flags.masks(Mask::ZeroVariance) {
        token_mask::mask_zero_variance(batch, flags.group_by);
    }
    for trajectory in batch.iter_mut() {
        penalise(trajectory, flags);
    }
    token_mask::mask_tokens(batch, flags, version);
    match flags.critic {
        Some(critic) => {
            for trajectory in batch.iter_mut() {
                let kl = flags.penalty_in(KlPlace::Tokens);
                let penalties =
                    kl.map_or_else(|| vec![0.0; trajectory.tokens().count()], |kl| penalty::of_tokens(trajectory, kl));
                gae::generalise(trajectory, critic, &penalties);
            }
        }
        None => credit_turns(batch, flags, memory),
    }
    finish(batch, flags);
    if flags.masks(Mask::ZeroAdvantage) {
        token_mask::mask_zero_advantage(batch);
    }
    if let Some(clip) = flags.covariance_clip {
        clip_covariance(batch, clip, stream);
    }
    if let Some(band) = flags.entropy_band {
        token_mask::band(batch, band, memory);
    }
}

/// Takes off what length and divergence cost, and adds what progress is worth.
fn penalise(trajectory: &mut AdvantageInput, flags: &Algorithm) {
    if let Some(length) = flags.length_penalty {
        let tokens = trajectory.tokens().count();
        penalty::take_off(trajectory, penalty::of_length(tokens, length));
    }
    if let Some(kl) = flags.penalty_in(KlPlace::Reward) {
        let sum = penalty::of_tokens(trajectory, kl).iter().sum();
        penalty::take_off(trajectory, sum);
    }
    if flags.progress != 0.0 {
        let earned = trajectory.earnings();
        trajectory.rest = 0.0;
        for (turn, (at, reward)) in trajectory.turns.iter_mut().zip(earned.iter().enumerate()) {
            let before = at.checked_sub(1).map_or(*reward, |before| earned[before]);
            turn.reward = reward + flags.progress * (reward - before);
        }
    }
}

/// Advantages of turns by comparing episodes.
fn credit_turns(batch: &mut [AdvantageInput], flags: &Algorithm, memory: &mut Memory) {
    if let Some(decay) = flags.average_decay {
        for trajectory in batch.iter_mut() {
            let average = memory.average(trajectory.seat, trajectory.reward, decay);
            penalty::take_off(trajectory, average);
        }
    }
    let key = |trajectory: &AdvantageInput| flags.group_by.key(trajectory.seat);
    let mut compared: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
    let mut rewards: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (index, trajectory) in batch.iter().enumerate() {
        compared.entry((trajectory.group, key(trajectory))).or_default().push(index);
        rewards.entry(key(trajectory)).or_default().push(trajectory.reward);
    }
    let mut found: Vec<Vec<f64>> = vec![vec![]; batch.len()];
    for ((_, seat), indices) in &compared {
        let batch_deviation = if flags.scale == Scale::BatchStd { deviation(&rewards[seat]) } else { 0.0 };
        let compare = Comparison { baseline: flags.baseline, scale: flags.scale, batch_deviation };
        let members: Vec<&AdvantageInput> = indices.iter().map(|index| &batch[*index]).collect();
        let earned: Vec<Vec<f64>> = members.iter().map(|member| member.earnings()).collect();
        for (index, turns) in indices.iter().zip(credit::turns(&members, &earned, flags.credit, compare)) {
            found[*index] = turns;
        }
    }
    share(batch, &mut found);
    for (trajectory, turns) in batch.iter_mut().zip(found) {
        for (turn, advantage) in trajectory.turns.iter_mut().zip(turns) {
            let advantage =
                flags.reward_temperature.map_or(advantage, |reward_temperature| (advantage / reward_temperature).exp());
            turn.tokens.iter_mut().for_each(|token| token.advantage = advantage);
        }
        if flags.wants_teacher() {
            trajectory.tokens_mut().for_each(|token| token.advantage = token.teacher - token.behaviour);
        }
        if let Some(kl) = flags.penalty_in(KlPlace::Tokens) {
            let mut penalties = penalty::of_tokens(trajectory, kl);
            let mut to_come = 0.0;
            for token in trajectory.tokens_mut().rev() {
                to_come += penalties.pop().unwrap_or(0.0);
                token.advantage -= to_come;
            }
        }
    }
}

/// In a tree, a turn that several episodes went through gets the mean of what they found (ARPO).
fn share(batch: &[AdvantageInput], found: &mut [Vec<f64>]) {
    let mut through: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for (index, trajectory) in batch.iter().enumerate() {
        for (turn, part) in trajectory.turns.iter().enumerate() {
            if let Some(owner) = part.shared_with {
                through.entry((owner, turn)).or_default().push(found[index][turn]);
            }
        }
    }
    for ((owner, turn), mut advantages) in through {
        if let Some(own) = found.get_mut(owner).and_then(|turns| turns.get_mut(turn)) {
            advantages.push(*own);
            *own = mean(&advantages);
        }
    }
}

/// Whitens what is learnt, and weighs it by entropy.
fn finish(batch: &mut [AdvantageInput], flags: &Algorithm) {
    match flags.whiten {
        Whiten::None => {}
        Whiten::Tokens => {
            let white = whitened(&advantages_of(batch));
            set_learnt(batch, white);
        }
        Whiten::Turns => whiten_turns(batch),
    }
    if flags.entropy_advantage > 0.0 {
        let entropies: Vec<f64> = batch.iter().flat_map(AdvantageInput::learnt).map(|token| token.entropy).collect();
        let advantages = advantages_of(batch);
        let weighed = advantages.iter().zip(whitened(&entropies));
        let weighed = weighed.map(|(advantage, entropy)| advantage * (1.0 + flags.entropy_advantage * entropy));
        set_learnt(batch, weighed.collect());
    }
}

fn advantages_of(batch: &[AdvantageInput]) -> Vec<f64> {
    batch.iter().flat_map(AdvantageInput::learnt).map(|token| token.advantage).collect()
}

fn set_learnt(batch: &mut [AdvantageInput], advantages: Vec<f64>) {
    let tokens = batch.iter_mut().flat_map(AdvantageInput::tokens_mut).filter(|token| token.learnt);
    for (token, advantage) in tokens.zip(advantages) {
        token.advantage = advantage;
    }
}

fn whiten_turns(batch: &mut [AdvantageInput]) {
    let learnt = |turn: &TurnPart| turn.tokens.iter().find(|token| token.learnt).map(|token| token.advantage);
    let turns = || batch.iter().flat_map(|trajectory| &trajectory.turns);
    let white = whitened(&turns().filter_map(learnt).collect::<Vec<_>>());
    let learnt_turns =
        batch.iter_mut().flat_map(|trajectory| &mut trajectory.turns).filter(|turn| learnt(turn).is_some());
    for (turn, advantage) in learnt_turns.zip(white) {
        turn.tokens.iter_mut().for_each(|token| token.advantage = advantage);
    }
}
