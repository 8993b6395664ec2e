//! Losses over single episodes that are desirable or not, relative to a reference point (KTO).

use std::collections::BTreeMap;

use super::{Judged, Slopes, Unit};
use crate::layout::{Batch, ContextLayout};
use gymkhana_engine::{Column, TokenStats};
use gymkhana_engine::{Sequence, Target};

/// Constants of the loss.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// β: weight of a log-ratio.
    pub beta: f64,
    /// λ of an episode with a reward above 0.
    pub desirable: f64,
    /// λ of another episode.
    pub undesirable: f64,
}

/// The mean over episodes of `λ (1 - σ(±β (log-ratio - reference point)))`, with `-` for episodes that are not desirable.
pub(super) fn slopes(batch: &Batch, episodes: &[usize], weights: Weights, reference_point: f64) -> (Slopes, Judged) {
    let Weights { beta, desirable, undesirable } = weights;
    let (mut slopes, mut judged) = (Slopes::zero(batch), Judged::default());
    let paths = Unit::paths(batch, episodes);
    let count = paths.len() as f64;
    for (input, unit) in paths {
        let log_ratio = unit.log_ratios(batch, Column::Reference);
        let is_desirable = batch.inputs[input].reward > 0.0;
        let (sign, weight) = if is_desirable { (1.0, desirable) } else { (-1.0, undesirable) };
        let gain = sigmoid(sign * beta * (log_ratio - reference_point));
        let share = weight / count;
        judged.loss += share * (1.0 - gain);
        judged.preferences.add(is_desirable, beta * log_ratio);
        slopes.add(unit, -sign * share * beta * gain * (1.0 - gain));
    }
    (slopes, judged)
}

fn sigmoid(number: f64) -> f64 {
    1.0 / (1.0 + (-number).exp())
}

/// Sequences whose mean log-ratio is the reference point: the prompt of each episode's first context with the reply of
/// an episode of the same seat in the next group, whose prompt is another one. None are longer than the longest of these
/// contexts. Empty for a single group.
pub(crate) fn unrelated(batch: &Batch, episodes: &[usize]) -> Vec<Sequence> {
    let mut seats: BTreeMap<u32, BTreeMap<usize, Vec<&ContextLayout>>> = BTreeMap::new();
    for (index, input) in batch.inputs.iter().enumerate().filter(|(_, input)| episodes.contains(&input.episode)) {
        let contexts = &batch.episodes[input.episode].contexts;
        let own = |context: &&ContextLayout| context.positions.first().is_some_and(|first| first.input == index);
        if input.tokens.in_loss().next().is_some()
            && let Some(first) = contexts.iter().find(own)
        {
            seats.entry(input.seat).or_default().entry(input.group).or_default().push(first);
        }
    }
    let all = || seats.values().flat_map(BTreeMap::values).flatten();
    let longest = all().map(|context| context.tokens.len()).max().unwrap_or(0);
    let mut found = Vec::new();
    for groups in seats.values().filter(|groups| groups.len() > 1) {
        for (group, next) in groups.values().zip(groups.values().cycle().skip(1)) {
            let replies = next.iter().cycle();
            found.extend(group.iter().zip(replies).filter_map(|(one, next)| splice(batch, one, next, longest)));
        }
    }
    found
}

/// The prompt of one context with what follows the prompt of another, up to a length. Its targets are the tokens in the
/// loss; `None` if none is left.
fn splice(batch: &Batch, one: &ContextLayout, other: &ContextLayout, longest: usize) -> Option<Sequence> {
    let [length, start] = [one, other].map(|context| context.positions.first().map(|first| first.at));
    let (length, start) = (length?, start?);
    let tokens = [&one.tokens[..length], &other.tokens[start..]].concat();
    let in_loss = other.positions.iter().filter(|position| batch.inputs[position.input].is_in_loss(position.token));
    let moved = in_loss.map(|position| Target { at: position.at - start + length, turn: position.turn as u32 });
    let targets: Vec<Target> = moved.filter(|target| target.at < longest).collect();
    let stats = TokenStats::neutral(targets.len());
    Sequence::new(&tokens, targets, stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantage::{AdvantageInput, TurnPart};
    use crate::layout::{EpisodeLayout, TokenPos};

    /// An episode whose tokens after a prompt of `prompt` tokens were sampled.
    fn add(batch: &mut Batch, (group, seat): (usize, u32), prompt: usize, tokens: &[u32]) {
        let (input, episode) = (batch.inputs.len(), batch.episodes.len());
        let position = |at: usize| TokenPos { at, input, turn: 0, token: at - prompt };
        let positions: Vec<TokenPos> = (prompt..tokens.len()).map(position).collect();
        let mut own = AdvantageInput { group, seat, episode, ..AdvantageInput::default() };
        own.push_turn(TurnPart::default(), &TokenStats::neutral(positions.len()));
        batch.inputs.push(own);
        let context = ContextLayout { tokens: tokens.to_vec(), positions };
        batch.episodes.push(EpisodeLayout { task: String::new(), contexts: vec![context] });
    }

    #[test]
    fn unrelated_replies_are_those_of_the_next_group_of_the_seat() {
        let mut batch = Batch::default();
        // Two episodes with the prompt 1, 2, and one each with 3, 4, 5 and with 6.
        add(&mut batch, (0, 0), 2, &[1, 2, 10, 11]);
        add(&mut batch, (0, 1), 1, &[90, 91]);
        add(&mut batch, (0, 0), 2, &[1, 2, 15]);
        add(&mut batch, (1, 0), 3, &[3, 4, 5, 12]);
        add(&mut batch, (2, 0), 1, &[6, 13, 14]);
        let found = unrelated(&batch, &[0, 1, 2, 3, 4]);
        let of = |sequence: &Sequence| (sequence.tokens.clone(), sequence.targets.iter().map(|t| t.at).collect());
        let found: Vec<(Vec<u32>, Vec<usize>)> = found.iter().map(of).collect();
        // The reply 13, 14 to the prompt 3, 4, 5 is cut at the longest length of 4. The seat 1 has a single group.
        let expected = [
            (vec![1, 2, 12], vec![2]),
            (vec![1, 2, 12], vec![2]),
            (vec![3, 4, 5, 13], vec![3]),
            (vec![6, 10, 11], vec![1, 2]),
        ];
        assert_eq!(found, expected);
        assert!(unrelated(&batch, &[0, 2]).is_empty(), "both replies are to the same prompt");
    }
}
