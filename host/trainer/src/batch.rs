//! From token sequences with targets to padded tensors of a bounded size.
#![allow(non_snake_case)]

use tch::{Device, Tensor};

/// A token that is learnt from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    /// Its index in the sequence, at least 1: something must come before it.
    pub at: usize,
    /// Its share of the minibatch's loss.
    pub weight: f32,
    /// The behaviour policy's log-probability of it; of no meaning in demonstrations.
    pub behaviour: f32,
    /// Its advantage; in demonstrations 1 where the expert wrote it and 0 elsewhere.
    pub advantage: f32,
}

/// A token sequence and what is learnt from it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sequence {
    /// The tokens up to and with the last target.
    pub tokens: Vec<u32>,
    /// In the order of their indices.
    pub targets: Vec<Target>,
}

impl Sequence {
    /// A sequence cut behind its last target, as nothing after it matters; `None` without targets.
    pub fn new(tokens: &[u32], targets: Vec<Target>) -> Option<Self> {
        let last = targets.last()?.at;
        Some(Self { tokens: tokens[..=last].to_vec(), targets })
    }

    /// Positions that a forward pass computes: all tokens but the last, which is only predicted.
    pub fn inputs(&self) -> usize {
        self.tokens.len() - 1
    }
}

/// Sequences of similar length, padded at their ends to the longest: S positions, B sequences, N targets.
pub(crate) struct MicroBatch {
    pub tokens_BS: Tensor,
    /// Where in the flattened `[B · S]` each target is predicted.
    pub places_N: Tensor,
    pub targets_N: Tensor,
    pub weights_N: Tensor,
    pub behaviour_N: Tensor,
    pub advantages_N: Tensor,
}

/// Sorts sequences by length and cuts them into parts of at most `micro_tokens` positions, padding included; a longer
/// sequence is a part of its own.
pub(crate) fn parts(mut sequences: Vec<&Sequence>, micro_tokens: usize) -> Vec<Vec<&Sequence>> {
    sequences.sort_by_key(|sequence| std::cmp::Reverse(sequence.inputs()));
    let mut parts: Vec<Vec<&Sequence>> = Vec::new();
    for sequence in sequences {
        match parts.last_mut() {
            Some(part) if (part.len() + 1) * part[0].inputs() <= micro_tokens => part.push(sequence),
            _ => parts.push(vec![sequence]),
        }
    }
    parts
}

impl MicroBatch {
    /// Lays out sequences, the longest first.
    pub fn new(sequences: &[&Sequence], device: Device) -> Self {
        let S = sequences.iter().map(|sequence| sequence.inputs()).max().unwrap_or(0);
        let mut tokens = vec![0_i64; sequences.len() * S];
        let (mut places, mut targets) = (Vec::new(), Vec::new());
        let (mut weights, mut behaviour, mut advantages) = (Vec::new(), Vec::new(), Vec::new());
        for (row, sequence) in sequences.iter().enumerate() {
            for (index, token) in sequence.tokens[..sequence.inputs()].iter().enumerate() {
                tokens[row * S + index] = i64::from(*token);
            }
            for target in &sequence.targets {
                places.push((row * S + target.at - 1) as i64);
                targets.push(i64::from(sequence.tokens[target.at]));
                weights.push(target.weight);
                behaviour.push(target.behaviour);
                advantages.push(target.advantage);
            }
        }
        Self {
            tokens_BS: Tensor::from_slice(&tokens).view([sequences.len() as i64, S as i64]).to_device(device),
            places_N: Tensor::from_slice(&places).to_device(device),
            targets_N: Tensor::from_slice(&targets).to_device(device),
            weights_N: Tensor::from_slice(&weights).to_device(device),
            behaviour_N: Tensor::from_slice(&behaviour).to_device(device),
            advantages_N: Tensor::from_slice(&advantages).to_device(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(tokens: &[u32], at: &[usize]) -> Sequence {
        let target = |at: &usize| Target { at: *at, weight: 1.0, behaviour: -0.5, advantage: 2.0 };
        Sequence::new(tokens, at.iter().map(target).collect()).expect("targets")
    }

    #[test]
    fn sequences_end_with_their_last_target() {
        assert_eq!(sequence(&[5, 6, 7, 8, 9], &[1, 3]).tokens, [5, 6, 7, 8]);
        assert_eq!(Sequence::new(&[1, 2], Vec::new()), None);
    }

    #[test]
    fn parts_are_bounded_and_lose_nothing() {
        let sequences: Vec<Sequence> = (2..40).map(|length| sequence(&vec![1; length], &[length - 1])).collect();
        let parts = parts(sequences.iter().collect(), 64);
        assert!(parts.iter().all(|part| part.len() == 1 || part.len() * part[0].inputs() <= 64));
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), sequences.len());
        assert_eq!(super::parts(sequences.iter().collect(), 1).len(), sequences.len());
    }

    #[test]
    fn targets_are_predicted_one_position_before_them() {
        let (long, short) = (sequence(&[5, 6, 7, 8], &[2, 3]), sequence(&[9, 4], &[1]));
        let batch = MicroBatch::new(&[&long, &short], Device::Cpu);
        let numbers = |tensor: &Tensor| Vec::<i64>::try_from(tensor.view([-1])).expect("numbers");
        assert_eq!(numbers(&batch.tokens_BS), [5, 6, 7, 9, 0, 0]);
        assert_eq!(numbers(&batch.places_N), [1, 2, 3]);
        assert_eq!(numbers(&batch.targets_N), [7, 8, 4]);
    }
}
