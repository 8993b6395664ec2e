//! From records to training data: advantage inputs as numbers, and the position of each of their tokens in a sequence.

use std::collections::BTreeMap;

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Segment};
use serde::{Deserialize, Serialize};

use crate::advantage::AdvantageInput;
use crate::turns::turn_parts;
use gymkhana_algorithm::{RlSettings, SftSettings, SharedTurns};
use gymkhana_engine::{Column, Sequence, Target, TokenStats};

/// Data that cannot be trained on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot train on {what}: {problem}")]
pub struct DataError {
    /// The episode or demonstration.
    pub what: String,
    /// Description of the problem, and a hint.
    pub problem: String,
}

/// Whether a limit of tokens cut a reply of an episode, given its tokens.
type IsCut<'a> = &'a (dyn Fn(&EpisodeRecord, &[u32]) -> bool + Sync);

/// Data of one reinforcement-learning step.
#[derive(Clone, Copy)]
pub struct RlData<'a> {
    /// Groups of episodes. Dropped episodes are excluded.
    pub groups: &'a [Vec<EpisodeRecord>],
    /// Demonstrations of the supervised loss, if the settings have one.
    pub demonstrations: &'a [Segment],
    /// Whether a limit of tokens cut a reply, for the masks `cut-reply` and `cut-episode`.
    pub is_cut: IsCut<'a>,
}

impl std::fmt::Debug for RlData<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (groups, demonstrations) = (self.groups.len(), self.demonstrations.len());
        f.debug_struct("RlData")
            .field("groups", &groups)
            .field("demonstrations", &demonstrations)
            .finish_non_exhaustive()
    }
}

impl<'a> From<&'a [Vec<EpisodeRecord>]> for RlData<'a> {
    /// Groups without demonstrations, whose replies all ended by themselves.
    fn from(groups: &'a [Vec<EpisodeRecord>]) -> Self {
        Self { groups, demonstrations: &[], is_cut: &|_, _| false }
    }
}

/// Position of a sampled token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenPos {
    /// Index in the sequence.
    pub at: usize,
    /// Index of the advantage input in the batch.
    pub input: usize,
    /// Turn of the seat.
    pub turn: usize,
    /// Index in the tokens of the advantage input.
    pub token: usize,
}

/// One context of an episode: its tokens and the positions of those that are trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContextLayout {
    pub tokens: Vec<u32>,
    pub positions: Vec<TokenPos>,
}

/// The episodes of a group that were not dropped.
fn counted(group: &[EpisodeRecord]) -> Vec<&EpisodeRecord> {
    group.iter().filter(|record| record.ending != Ending::Dropped).collect()
}

/// The contexts of one episode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct EpisodeLayout {
    /// The task, as `split/index`.
    pub task: String,
    pub contexts: Vec<ContextLayout>,
}

/// Data of one training step.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub(crate) inputs: Vec<AdvantageInput>,
    pub(crate) episodes: Vec<EpisodeLayout>,
    /// Number of groups.
    pub(crate) groups: usize,
}

impl Batch {
    /// Lays out groups of episodes. Dropped episodes are left out, as if the group had been smaller, and so are groups of
    /// dropped episodes and seats that are not trained on.
    pub fn of(data: &RlData<'_>, settings: &RlSettings) -> Self {
        let groups: Vec<Vec<&EpisodeRecord>> = data.groups.iter().map(|group| counted(group)).collect();
        let groups: Vec<_> = groups.into_iter().filter(|group| !group.is_empty()).collect();
        let mut batch = Self { groups: groups.len(), ..Self::default() };
        for (group, counted) in groups.iter().enumerate() {
            let mut found = BTreeMap::new();
            for record in counted {
                batch.add(record, (group, data), settings, &mut found);
            }
            batch.link_shared_turns(counted, &found, settings.algorithm.shared_turns);
        }
        batch
    }

    /// Lays out groups whose replies all ended by themselves.
    #[cfg(test)]
    pub fn new(groups: &[Vec<EpisodeRecord>], settings: &RlSettings) -> Self {
        Self::of(&groups.into(), settings)
    }

    fn add(
        &mut self,
        record: &EpisodeRecord,
        (group, data): (usize, &RlData<'_>),
        settings: &RlSettings,
        found: &mut BTreeMap<(EpisodeId, u32), usize>,
    ) {
        let episode = self.episodes.len();
        let mut contexts = Vec::new();
        for (seat, reward) in (0..).zip(&record.rewards).filter(|(seat, _)| settings.learns(*seat)) {
            let index = self.inputs.len();
            let shared = match settings.algorithm.shared_turns {
                SharedTurns::Once => record.shared_turns(seat),
                SharedTurns::PerEpisode => 0,
            };
            let (mut input, own) = lay_out_seat(record, (seat, *reward), shared, index);
            mark_cut_replies(&mut input, record, data);
            contexts.extend(own);
            found.insert((record.id, seat), index);
            self.inputs.push(AdvantageInput { group, episode, ..input });
        }
        self.episodes.push(EpisodeLayout { task: record.task_name(), contexts });
    }

    /// Links turns that episodes of a tree share to the input that trains on them, or marks their tokens as copies.
    fn link_shared_turns(
        &mut self,
        records: &[&EpisodeRecord],
        found: &BTreeMap<(EpisodeId, u32), usize>,
        reading: SharedTurns,
    ) {
        for record in records.iter().filter(|record| !record.forks.is_empty()) {
            for ((_, seat), index) in found.range((record.id, 0)..=(record.id, u32::MAX)) {
                let AdvantageInput { turns, tokens, .. } = &mut self.inputs[*index];
                for (turn, part) in (0..).zip(turns) {
                    let shares = |fork: &&gymkhana_record::Fork| {
                        fork.turns.get(*seat as usize).is_some_and(|turns| turn < *turns)
                    };
                    let owner = record.forks.iter().find(shares).and_then(|fork| found.get(&(fork.parent, *seat)));
                    match (reading, owner) {
                        (SharedTurns::Once, owner) => part.shared_with = owner.copied(),
                        (SharedTurns::PerEpisode, Some(_)) => tokens.fill(Column::Copy, part.tokens.clone(), 1.0),
                        (SharedTurns::PerEpisode, None) => {}
                    }
                }
            }
        }
    }

    /// Sequences of one episode whose targets are the selected tokens, with copies of the tokens' numbers, and the input
    /// of each.
    pub(crate) fn sequences<'a>(
        &'a self,
        episode: &'a EpisodeLayout,
        selects: impl Fn(&AdvantageInput, usize) -> bool + 'a,
    ) -> impl Iterator<Item = (usize, Sequence)> + 'a {
        episode.contexts.iter().filter_map(move |context| {
            let (mut targets, mut stats) = (Vec::new(), TokenStats::default());
            for position in &context.positions {
                let input = &self.inputs[position.input];
                if selects(input, position.token) {
                    targets.push(Target { at: position.at, turn: position.turn as u32 });
                    stats.push_row(&input.tokens, position.token);
                }
            }
            Some((context.positions.first()?.input, Sequence::new(&context.tokens, targets, stats)?))
        })
    }

    /// Mean entropy of the sampled tokens, in nats. A token that several episodes share counts once.
    pub(crate) fn mean_entropy(&self) -> f64 {
        let originals = self.inputs.iter().flat_map(|AdvantageInput { tokens, .. }| {
            (0..tokens.len()).filter(|token| !tokens.is_copy(*token)).map(|token| tokens.get(Column::Entropy, token))
        });
        let (sum, count) = originals.fold((0.0, 0_usize), |(sum, count), entropy| (sum + entropy, count + 1));
        sum / count.max(1) as f64
    }

    /// All sequences, every sampled token a target.
    pub(crate) fn all_sequences(&self) -> Vec<Sequence> {
        self.episodes.iter().flat_map(|episode| self.sequences(episode, |_, _| true)).map(|(_, own)| own).collect()
    }

    /// The inputs whose episodes were cut short, each with the context of its last token as a sequence with one target:
    /// the position after that token.
    pub(crate) fn ends_cut_short(&self) -> impl Iterator<Item = (usize, Sequence)> {
        let contexts = self.episodes.iter().flat_map(|episode| &episode.contexts);
        contexts.filter_map(|context| {
            let last = context.positions.last()?;
            let input = &self.inputs[last.input];
            if input.finished || last.token + 1 != input.tokens.len() {
                return None;
            }
            // The token at the target is not an input of the model.
            let tokens = [&context.tokens[..=last.at], &[0]].concat();
            let target = Target { at: last.at + 1, turn: last.turn as u32 };
            Some((last.input, Sequence::new(&tokens, vec![target], TokenStats::neutral(1))?))
        })
    }

    /// Sets a column of every token. `values` has one list per sequence of [`Batch::all_sequences`], one number per
    /// target.
    pub(crate) fn annotate(&mut self, column: Column, values: &[Vec<f32>]) {
        let contexts = self.episodes.iter().flat_map(|episode| &episode.contexts);
        for (context, numbers) in contexts.filter(|context| !context.positions.is_empty()).zip(values) {
            for (position, number) in context.positions.iter().zip(numbers) {
                self.inputs[position.input].tokens.set(column, position.token, f64::from(*number));
            }
        }
    }
}

/// A seat's part of a record as an advantage input, and its contexts. The tokens of the first `shared` turns are left out.
fn lay_out_seat(
    record: &EpisodeRecord,
    (seat, reward): (u32, f64),
    shared: u32,
    index: usize,
) -> (AdvantageInput, Vec<ContextLayout>) {
    let mut turns = turn_parts(record, seat).into_iter();
    let mut contexts = Vec::new();
    let mut by_turn: Vec<TokenStats> = Vec::new();
    for segment in record.segments.iter().filter(|segment| segment.seat() == seat) {
        contexts.extend(lay_out(segment, index, shared, &mut by_turn));
    }
    let rewards = record.turn_rewards.get(seat as usize).map_or(0.0, |rewards| rewards.iter().sum::<f64>());
    let mut input = AdvantageInput {
        environment: record.environment.clone(),
        seat,
        reward,
        rest: reward - rewards,
        finished: !record.ending.is_cut_short(),
        ..AdvantageInput::default()
    };
    by_turn.resize_with(by_turn.len().max(turns.len()), TokenStats::default);
    for tokens in &by_turn {
        input.push_turn(turns.next().unwrap_or_default(), tokens);
    }
    for position in contexts.iter_mut().flat_map(|context| &mut context.positions) {
        position.token += input.turns[position.turn].tokens.start;
    }
    (input, contexts)
}

/// Marks the turns of a seat whose reply a limit of tokens cut.
fn mark_cut_replies(input: &mut AdvantageInput, record: &EpisodeRecord, data: &RlData<'_>) {
    for segment in record.segments.iter().filter(|segment| segment.seat() == input.seat) {
        for reply in segment.replies().filter(|reply| (data.is_cut)(record, &segment.tokens()[reply.clone()])) {
            if let Some(turn) = input.turns.get_mut(segment.turns()[reply.start] as usize) {
                turn.cut = true;
            }
        }
    }
}

/// The context of a segment. Its trained tokens are appended to their turns in `by_turn`, and positions index into the
/// turn. Tokens of turns that belong to the parent episode and the first token, which has no prefix, are left out.
fn lay_out(segment: &Segment, input: usize, shared: u32, by_turn: &mut Vec<TokenStats>) -> Option<ContextLayout> {
    let (tokens, sampled, turns) = (segment.tokens(), segment.sampled(), segment.turns());
    let (log_probs, entropies, versions) = (segment.log_probs(), segment.entropies(), segment.versions());
    let mut positions = Vec::new();
    for at in (1..segment.len()).filter(|at| sampled[*at] && turns[*at] >= shared) {
        let turn = turns[at] as usize;
        if by_turn.len() <= turn {
            by_turn.resize_with(turn + 1, TokenStats::default);
        }
        positions.push(TokenPos { at, input, turn, token: by_turn[turn].len() });
        let log_prob = f64::from(log_probs[at]);
        by_turn[turn].push(&[
            (Column::Behaviour, log_prob),
            (Column::Proximal, log_prob),
            (Column::Entropy, f64::from(entropies[at])),
            (Column::Version, f64::from(versions[at])),
        ]);
    }
    let last = positions.last()?.at;
    Some(ContextLayout { tokens: tokens[..=last].to_vec(), positions })
}

/// Checks that a segment fits the model; `what` names it in the error.
pub fn check_segment(
    segment: &Segment,
    vocabulary: i64,
    context: usize,
    what: impl FnOnce() -> String,
) -> Result<(), DataError> {
    let length = segment.len();
    let problem = if length > context {
        format!("its {length} tokens exceed the context of {context}\nhint: raise `context`")
    } else if let Some(token) = segment.tokens().iter().find(|token| i64::from(**token) >= vocabulary) {
        format!("token {token} is outside the vocabulary of {vocabulary}\nhint: use the tokenizer of this model")
    } else {
        return Ok(());
    };
    Err(DataError { what: what(), problem })
}

/// A demonstration with its weight in the loss.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    /// The context. Its tokens that are marked as sampled are imitated.
    pub segment: &'a Segment,
    /// Weight of each of its tokens, at least 0, relative to those of the other demonstrations.
    pub weight: f64,
}

impl<'a> Weighted<'a> {
    /// Demonstrations of equal weight.
    #[must_use]
    pub fn equally(segments: &'a [Segment]) -> Vec<Self> {
        segments.iter().map(|segment| Self { segment, weight: 1.0 }).collect()
    }
}

/// Sequences of demonstrations of equal weight, without the tokens that the expert did not write.
pub fn imitated_sequences(demonstrations: &[Segment]) -> Result<Vec<Sequence>, DataError> {
    let settings = SftSettings { other_tokens: 0.0, ..SftSettings::default() };
    demonstration_sequences(&Weighted::equally(demonstrations), &settings)
}

/// Sequences of demonstrations: tokens that the expert wrote share a weight of 1, all others a weight of `other_tokens`.
pub fn demonstration_sequences(
    demonstrations: &[Weighted<'_>],
    settings: &SftSettings,
) -> Result<Vec<Sequence>, DataError> {
    let predicted =
        |segment: &Segment, sampled: bool| segment.sampled().iter().skip(1).filter(|found| **found == sampled).count();
    let sum = |sampled: bool| -> f64 {
        let of = |one: &Weighted<'_>| one.weight * predicted(one.segment, sampled) as f64;
        demonstrations.iter().map(of).sum()
    };
    let (by_expert, others) = (sum(true), sum(false));
    if by_expert == 0.0 {
        let problem = "no token is marked as sampled\nhint: mark the tokens that the expert wrote".to_owned();
        return Err(DataError { what: format!("{} demonstrations", demonstrations.len()), problem });
    }
    let other_weight = if others > 0.0 { settings.other_tokens / others } else { 0.0 };
    let weights = [other_weight, 1.0 / by_expert];
    let sequences = demonstrations.iter().filter_map(|Weighted { segment, weight: own }| {
        let (mut targets, mut stats) = (Vec::new(), TokenStats::default());
        for (at, sampled) in segment.sampled().iter().enumerate().skip(1) {
            let weight = (own * weights[usize::from(*sampled)]) as f32;
            if weight > 0.0 {
                targets.push(Target { at, turn: 0 });
                let of_expert = f64::from(u8::from(*sampled));
                stats.push(&[(Column::LossWeight, f64::from(weight)), (Column::Advantage, of_expert)]);
            }
        }
        Sequence::new(segment.tokens(), targets, stats)
    });
    Ok(sequences.collect())
}
