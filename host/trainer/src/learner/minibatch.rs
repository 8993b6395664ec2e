//! From what was found of a batch to the sequences of one optimiser step.

use super::layout::Batch;
use crate::advantage::{AdvantageInput, Token};
use crate::algorithm::{Aggregation, KlPlace};
use crate::batch::{Sequence, Target};
use crate::settings::RlSettings;

/// The sequences of some of a batch's episodes, with each token's share of the loss, times `factor`. Sequences from
/// which nothing can be learnt, as their advantages are 0 and nothing else pulls, count in the shares but are left out.
pub(super) fn weigh(batch: &Batch, episodes: &[usize], settings: &RlSettings, factor: f64) -> Vec<Sequence> {
    let flags = &settings.algorithm;
    let learnt = learnt_by_episode(batch);
    let counted: Vec<usize> = episodes.iter().copied().filter(|episode| learnt[*episode] > 0).collect();
    let tokens: usize = counted.iter().map(|episode| learnt[*episode]).sum();
    let kl = flags.penalty_in(KlPlace::Loss);
    let only_surrogate = settings.skip_idle && kl.is_none() && flags.entropy_bonus == 0.0;
    let mut weighed = Vec::new();
    for episode in &counted {
        let share = match flags.aggregation {
            Aggregation::Token => 1.0 / tokens as f64,
            Aggregation::Sequence => 1.0 / (counted.len() * learnt[*episode]) as f64,
            Aggregation::Constant => 1.0 / (counted.len() as f64 * f64::from(flags.constant_tokens.unwrap_or(1))),
        };
        let target = |_: &AdvantageInput, token: &Token| {
            token.learnt.then(|| Target {
                weight: (share * factor) as f32,
                proximal: token.proximal as f32,
                advantage: token.advantage as f32,
                correction: token.correction as f32,
                reference: token.reference as f32,
                kl_weight: 1.0,
                band: [token.band.0, token.band.1].map(|cost| (cost * factor / tokens as f64) as f32),
                ..Target::default()
            })
        };
        let found = batch.sequences(&batch.episodes[*episode], target).map(|mut sequence| {
            let first = kl.and_then(|kl| kl.first_turns).unwrap_or(u32::MAX);
            for target in sequence.targets.iter_mut().filter(|target| target.turn >= first) {
                target.kl_weight = 0.0;
            }
            sequence
        });
        let pulls = |target: &Target| target.advantage * target.correction != 0.0;
        weighed.extend(found.filter(|sequence| !only_surrogate || sequence.targets.iter().any(pulls)));
    }
    weighed
}

/// How many tokens of each episode are learnt from.
pub(super) fn learnt_by_episode(batch: &Batch) -> Vec<usize> {
    let mut learnt = vec![0; batch.episodes.len()];
    for trajectory in &batch.trajectories {
        learnt[trajectory.episode] += trajectory.learnt().count();
    }
    learnt
}

/// What the critic learns of some episodes: each value has the same share.
pub(super) fn expected(batch: &Batch, episodes: &[usize]) -> Vec<Sequence> {
    let target = |_: &AdvantageInput, token: &Token| {
        let target = token.target.filter(|_| token.learnt)?;
        Some(Target { weight: 1.0, value: [token.value as f32, target as f32], ..Target::default() })
    };
    let mut sequences: Vec<Sequence> =
        episodes.iter().flat_map(|episode| batch.sequences(&batch.episodes[*episode], target)).collect();
    let count: usize = sequences.iter().map(|sequence| sequence.targets.len()).sum();
    for target in sequences.iter_mut().flat_map(|sequence| &mut sequence.targets) {
        target.weight = 1.0 / count as f32;
    }
    sequences
}
