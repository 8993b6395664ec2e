//! From the numbers of a batch to the sequences of one optimiser step.

use crate::advantage::AdvantageInput;
use crate::layout::Batch;
use gymkhana_algorithm::RlSettings;
use gymkhana_algorithm::{Aggregation, KlPlace};
use gymkhana_engine::{Column, TokenStats};
use gymkhana_engine::{Sequence, Target};

/// Sequences of one optimiser step.
#[derive(Debug, Default)]
pub(crate) struct Minibatch {
    /// Sequences that are trained on.
    pub trained: Vec<Sequence>,
    /// Sequences without a gradient, which count in the shares of the loss and are only measured.
    pub idle: Vec<Sequence>,
}

impl Minibatch {
    /// Moves the sequences of another minibatch here.
    pub fn append(&mut self, other: &mut Self) {
        self.trained.append(&mut other.trained);
        self.idle.append(&mut other.idle);
    }
}

/// Sequences of some of a batch's episodes, with each token's share of the loss times `factor`. Sequences are idle if
/// their advantages are 0 and the loss has no other term.
pub(crate) fn weigh(batch: &Batch, episodes: &[usize], settings: &RlSettings, factor: f64) -> Minibatch {
    let flags = &settings.algorithm;
    let in_loss = tokens_in_loss(batch);
    let counted: Vec<usize> = episodes.iter().copied().filter(|episode| in_loss[*episode] > 0).collect();
    let tokens: usize = counted.iter().map(|episode| in_loss[*episode]).sum();
    let part_tokens: Vec<usize> = batch.inputs.iter().map(|input| input.tokens.in_loss().count()).collect();
    let is_counted =
        |(index, input): &(usize, &AdvantageInput)| part_tokens[*index] > 0 && counted.contains(&input.episode);
    let parts = batch.inputs.iter().enumerate().filter(is_counted).count();
    let kl = flags.penalty_in(KlPlace::Loss);
    let first_turns = kl.and_then(|kl| kl.first_turns).unwrap_or(u32::MAX);
    let only_surrogate = settings.skip_idle && kl.is_none() && flags.entropy_bonus == 0.0 && !flags.distils();
    let mut weighed = Minibatch::default();
    for episode in &counted {
        let share = |input: usize| match flags.aggregation {
            Aggregation::Token => 1.0 / tokens as f64,
            Aggregation::Sequence => 1.0 / (counted.len() * in_loss[*episode]) as f64,
            Aggregation::SequencePerSeat => 1.0 / (parts * part_tokens[input]) as f64,
            Aggregation::Constant => 1.0 / (counted.len() as f64 * f64::from(flags.constant_tokens.unwrap_or(1))),
        };
        let sequences =
            batch.sequences(&batch.episodes[*episode], AdvantageInput::is_in_loss).map(|(input, mut sequence)| {
                sequence.stats.column_mut(Column::LossWeight).fill(share(input) * factor);
                for column in [Column::BandSlope, Column::BandOffset] {
                    scale(&mut sequence.stats, column, factor, tokens);
                }
                let late = |(index, target): (usize, &Target)| (target.turn >= first_turns).then_some(index);
                for index in sequence.targets.iter().enumerate().filter_map(late) {
                    sequence.stats.set(Column::KlWeight, index, 0.0);
                }
                sequence
            });
        for sequence in sequences {
            match !only_surrogate || has_gradient(&sequence.stats) {
                true => weighed.trained.push(sequence),
                false => weighed.idle.push(sequence),
            }
        }
    }
    weighed
}

/// Multiplies a column by `factor` and divides it by a number of tokens.
fn scale(stats: &mut TokenStats, column: Column, factor: f64, tokens: usize) {
    if stats.informative().any(|found| found == column) {
        stats.column_mut(column).iter_mut().for_each(|cost| *cost = *cost * factor / tokens as f64);
    }
}

/// Whether the surrogate of any token has a gradient.
fn has_gradient(stats: &TokenStats) -> bool {
    let (advantages, corrections) = (stats.column(Column::Advantage), stats.column(Column::Correction));
    let mut pairs = advantages.iter().zip(corrections.iter());
    pairs.any(|(advantage, correction)| *advantage as f32 * *correction as f32 != 0.0)
}

/// Number of tokens of each episode that enter the loss.
pub(crate) fn tokens_in_loss(batch: &Batch) -> Vec<usize> {
    let mut counts = vec![0; batch.episodes.len()];
    for input in &batch.inputs {
        counts[input.episode] += input.tokens.in_loss().count();
    }
    counts
}

/// Sequences of some episodes for the critic: every value has the same share of the loss.
pub(crate) fn value_sequences(batch: &Batch, episodes: &[usize]) -> Vec<Sequence> {
    let has_target =
        |input: &AdvantageInput, token| input.is_in_loss(token) && input.tokens.get(Column::ValueMask, token) != 0.0;
    let mut sequences: Vec<Sequence> = episodes
        .iter()
        .flat_map(|episode| batch.sequences(&batch.episodes[*episode], has_target))
        .map(|(_, own)| own)
        .collect();
    let count: usize = sequences.iter().map(|sequence| sequence.targets.len()).sum();
    for sequence in &mut sequences {
        sequence.stats.column_mut(Column::LossWeight).fill(f64::from(1.0 / count as f32));
    }
    sequences
}
