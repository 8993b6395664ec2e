//! Advantages: how much better each sampled token did than expected, from plain numbers and without tensors.
//!
//! [`compute`] processes a batch in one pass: scale and bounds of rewards, penalties on them, masks, credit of turns against their baselines, and
//! whitening. Each step is a module.

mod comparison;
mod credit;
mod environments;
mod gae;
mod input;
mod penalty;
mod state;
mod token_mask;

use std::collections::BTreeMap;

pub use comparison::ComparisonRule;
pub(crate) use comparison::quantile;
use comparison::{deviation, mean, whitened};
pub use environments::compute_each;
use gymkhana_record::Stream;
pub use input::{AdvantageInput, TurnPart};
pub use state::AdvantageState;

use gymkhana_algorithm::{Algorithm, Baseline, Credit, KlPlace, Mask, RewardScale, Scale, Whiten};
use gymkhana_engine::Column;

/// Sets advantages, loss masks, corrections and value targets of every token of a batch. `version` is the weight version
/// at the start of the step; `stream` supplies randomness to the flags that sample.
pub fn compute(
    batch: &mut [AdvantageInput],
    flags: &Algorithm,
    memory: &mut AdvantageState,
    version: u32,
    stream: &mut Stream,
) {
    if flags.reward_scale == RewardScale::Running {
        memory.add_rewards(batch.iter().map(|input| (input.seat, input.reward)));
        for input in batch.iter_mut() {
            let divisor = memory.reward_scale(input.seat);
            penalty::divide(input, divisor);
        }
    }
    if let Some(bounds) = flags.reward_clip {
        for input in batch.iter_mut() {
            let excess = input.reward - bounds.clip(input.reward);
            penalty::subtract(input, excess);
        }
    }
    // Before penalties: a group of equal rewards has no variance, whatever the length of its episodes.
    if flags.masks(Mask::ZeroVariance) {
        token_mask::mask_zero_variance(batch, flags.group_by);
    }
    for input in batch.iter_mut() {
        penalise(input, flags);
    }
    token_mask::mask_tokens(batch, flags, version);
    match flags.critic {
        Some(critic) => {
            let kl = flags.penalty_in(KlPlace::Tokens);
            let costs = |input: &AdvantageInput| {
                kl.map_or_else(|| vec![0.0; input.tokens.len()], |kl| penalty::of_tokens(input, kl))
            };
            let penalties: Vec<Vec<f64>> = batch.iter().map(costs).collect();
            gae::generalise(batch, critic, &penalties);
        }
        None => credit_turns(batch, flags, memory),
    }
    finish(batch, flags);
    cap_provoked_failures(batch);
    if flags.masks(Mask::ZeroAdvantage) {
        token_mask::mask_zero_advantage(batch);
    }
    if let Some(clip) = flags.covariance_clip {
        token_mask::clip_covariance(batch, clip, stream);
    }
    if let Some(band) = flags.entropy_band {
        token_mask::band(batch, band, memory);
    }
}

/// Corrects replayed tokens, whose advantages and proximal log-probabilities are set, in the order of fresh tokens:
/// importance weights with the bounds on ratio and staleness first, then the covariance clip.
pub(crate) fn correct_replayed(batch: &mut [AdvantageInput], flags: &Algorithm, version: u32, stream: &mut Stream) {
    if let Some(off_policy) = flags.off_policy {
        token_mask::correct(batch, off_policy, version);
    }
    if let Some(clip) = flags.covariance_clip {
        token_mask::clip_covariance(batch, clip, stream);
    }
}

/// Subtracts the costs of length and divergence from rewards and adds the bonus for progress.
fn penalise(input: &mut AdvantageInput, flags: &Algorithm) {
    if let Some(length) = flags.length_penalty {
        penalty::subtract(input, penalty::of_length(input.tokens.len(), length));
    }
    if let Some(kl) = flags.penalty_in(KlPlace::Reward) {
        let sum = penalty::of_tokens(input, kl).iter().sum();
        penalty::subtract(input, sum);
    }
    if flags.progress != 0.0 {
        let rewards = input.turn_rewards();
        input.rest = 0.0;
        for (turn, (at, reward)) in input.turns.iter_mut().zip(rewards.iter().enumerate()) {
            let before = at.checked_sub(1).map_or(*reward, |before| rewards[before]);
            turn.reward = reward + flags.progress * (reward - before);
        }
    }
}

/// Advantages of turns from the comparison of episodes.
fn credit_turns(batch: &mut [AdvantageInput], flags: &Algorithm, memory: &mut AdvantageState) {
    if let Some(decay) = flags.average_decay {
        for input in batch.iter_mut() {
            let average = memory.average(input.seat, input.reward, decay);
            penalty::subtract(input, average);
        }
    }
    let key = |input: &AdvantageInput| flags.group_by.key(input.seat);
    let mut compared: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
    let mut rewards: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (index, input) in batch.iter().enumerate() {
        let group = if flags.baseline == Baseline::BatchMean { 0 } else { input.group };
        compared.entry((group, key(input))).or_default().push(index);
        rewards.entry(key(input)).or_default().push(input.reward);
    }
    let mut found: Vec<Vec<f64>> = vec![vec![]; batch.len()];
    for ((_, seat), indices) in &compared {
        let batch_deviation = if flags.scale == Scale::BatchStd { deviation(&rewards[seat]) } else { 0.0 };
        let comparison = ComparisonRule { baseline: flags.baseline, scale: flags.scale, batch_deviation };
        let members: Vec<&AdvantageInput> = indices.iter().map(|index| &batch[*index]).collect();
        let turn_rewards: Vec<Vec<f64>> = members.iter().map(|member| member.turn_rewards()).collect();
        for (index, turns) in indices.iter().zip(credit::turns(&members, &turn_rewards, flags.credit, comparison)) {
            found[*index] = turns;
        }
    }
    share(batch, &mut found);
    for (input, turns) in batch.iter_mut().zip(found) {
        for (turn, advantage) in turns.into_iter().enumerate().take(input.turns.len()) {
            let weight = |temperature: f64| (advantage / temperature).exp();
            input.set_turn_advantage(turn, flags.reward_temperature.map_or(advantage, weight));
        }
        token_terms(input, flags);
    }
}

/// Advantages that differ between the tokens of a turn: a teacher's, and the divergence that is still to come.
fn token_terms(input: &mut AdvantageInput, flags: &Algorithm) {
    let tokens = &mut input.tokens;
    if flags.credit == (Credit::Teacher {}) {
        for token in 0..tokens.len() {
            let advantage = tokens.get(Column::Teacher, token) - tokens.get(Column::Behaviour, token);
            tokens.set(Column::Advantage, token, advantage);
        }
    }
    if let Some(kl) = flags.penalty_in(KlPlace::Tokens) {
        let penalties = penalty::of_tokens(input, kl);
        let mut to_come = 0.0;
        for (advantage, penalty) in input.tokens.column_mut(Column::Advantage).iter_mut().zip(penalties).rev() {
            to_come += penalty;
            *advantage -= to_come;
        }
    }
}

/// In a tree of episodes, gives a turn that several episodes share the mean of their advantages (ARPO).
fn share(batch: &[AdvantageInput], found: &mut [Vec<f64>]) {
    let mut through: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for (index, input) in batch.iter().enumerate() {
        for (turn, part) in input.turns.iter().enumerate() {
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

/// Whitens the advantages that enter the loss, scales them by entropy and clips them.
fn finish(batch: &mut [AdvantageInput], flags: &Algorithm) {
    match flags.whiten {
        Whiten::None => {}
        Whiten::Tokens => {
            let white = whitened(&in_loss(batch, Column::Advantage), flags.whiten_floor);
            set_advantages(batch, white);
        }
        Whiten::Turns => whiten_turns(batch, flags.whiten_floor),
    }
    if flags.entropy_advantage > 0.0 {
        let (advantages, entropies) = (in_loss(batch, Column::Advantage), in_loss(batch, Column::Entropy));
        let scaled = advantages.iter().zip(whitened(&entropies, 0.0));
        let scaled = scaled.map(|(advantage, entropy)| advantage * (1.0 + flags.entropy_advantage * entropy));
        set_advantages(batch, scaled.collect());
    }
    if let Some(bounds) = flags.advantage_clip {
        for AdvantageInput { tokens, .. } in batch {
            tokens.column_mut(Column::Advantage).iter_mut().for_each(|advantage| *advantage = bounds.clip(*advantage));
        }
    }
}

/// Bounds the advantages of turns that provoked a failure to at most 0, whatever penalties, critics and the rewards of the
/// others made of the least total.
fn cap_provoked_failures(batch: &mut [AdvantageInput]) {
    for AdvantageInput { turns, tokens, .. } in batch {
        for turn in turns.iter().filter(|turn| turn.provoked_failure) {
            let advantages = &mut tokens.column_mut(Column::Advantage)[turn.tokens.clone()];
            advantages.iter_mut().for_each(|advantage| *advantage = advantage.min(0.0));
        }
    }
}

/// A column's numbers of all tokens that enter the loss.
fn in_loss(batch: &[AdvantageInput], column: Column) -> Vec<f64> {
    batch.iter().flat_map(|input| input.tokens.column_in_loss(column)).collect()
}

/// Sets the advantages of the tokens that enter the loss, in order.
fn set_advantages(batch: &mut [AdvantageInput], advantages: Vec<f64>) {
    let mut advantages = advantages.into_iter();
    for AdvantageInput { tokens, .. } in batch {
        for token in 0..tokens.len() {
            if tokens.is_in_loss(token)
                && let Some(advantage) = advantages.next()
            {
                tokens.set(Column::Advantage, token, advantage);
            }
        }
    }
}

fn whiten_turns(batch: &mut [AdvantageInput], floor: f64) {
    let mut turns: Vec<(usize, usize)> = Vec::new();
    let mut advantages = Vec::new();
    for (index, AdvantageInput { turns: parts, tokens, .. }) in batch.iter().enumerate() {
        for (turn, part) in parts.iter().enumerate() {
            if let Some(token) = part.tokens.clone().find(|token| tokens.is_in_loss(*token)) {
                turns.push((index, turn));
                advantages.push(tokens.get(Column::Advantage, token));
            }
        }
    }
    for ((index, turn), advantage) in turns.into_iter().zip(whitened(&advantages, floor)) {
        batch[index].set_turn_advantage(turn, advantage);
    }
}
