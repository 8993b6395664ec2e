//! From records to what is learnt: trajectories as numbers, and for each of their tokens where it stands in a sequence.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, PolicyTurn, Segment, Turn, text_of};
use serde::{Deserialize, Serialize};

use crate::TrainerError;
use crate::advantage::{Token, Trajectory, TurnPart};
use crate::batch::{Sequence, Target};
use crate::settings::{RlSettings, SftSettings};

/// Where a sampled token stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Its index in the sequence.
    pub at: usize,
    /// Its trajectory in the batch, its turn there, and its place in the turn.
    pub trajectory: usize,
    pub turn: usize,
    pub token: usize,
}

/// A context as it is trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Laid {
    pub tokens: Vec<u32>,
    pub places: Vec<Place>,
}

/// One episode's contexts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct LaidEpisode {
    /// Names the task.
    pub task: String,
    pub contexts: Vec<Laid>,
}

/// What a training step learns from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub trajectories: Vec<Trajectory>,
    pub(super) episodes: Vec<LaidEpisode>,
    /// How many groups there are.
    pub(super) groups: usize,
}

impl Batch {
    /// Lays out groups of episodes. Dropped episodes are left out, as if the group had been smaller, and so are seats
    /// from which is not learnt.
    pub fn new(groups: &[Vec<EpisodeRecord>], settings: &RlSettings) -> Self {
        let mut batch = Self { groups: groups.len(), ..Self::default() };
        for (group, records) in groups.iter().enumerate() {
            let counted: Vec<&EpisodeRecord> =
                records.iter().filter(|record| record.ending != Ending::Dropped).collect();
            let mut found = BTreeMap::new();
            for record in &counted {
                batch.add(record, group, settings, &mut found);
            }
            batch.tie(&counted, &found);
        }
        batch
    }

    fn add(
        &mut self,
        record: &EpisodeRecord,
        group: usize,
        settings: &RlSettings,
        found: &mut BTreeMap<(EpisodeId, u32), usize>,
    ) {
        let episode = self.episodes.len();
        let mut contexts = Vec::new();
        for (seat, reward) in (0..).zip(&record.rewards).filter(|(seat, _)| settings.learns(*seat)) {
            let index = self.trajectories.len();
            let mut trajectory = trajectory(record, seat, *reward);
            (trajectory.group, trajectory.episode) = (group, episode);
            for segment in record.segments.iter().filter(|segment| segment.seat() == seat) {
                contexts.extend(lay(segment, index, record.shared_turns(seat), &mut trajectory));
            }
            found.insert((record.id, seat), index);
            self.trajectories.push(trajectory);
        }
        let task = format!("{} {}", record.task.split, record.task.index);
        self.episodes.push(LaidEpisode { task, contexts });
    }

    /// Ties turns of trees to the trajectories that learn them.
    fn tie(&mut self, records: &[&EpisodeRecord], found: &BTreeMap<(EpisodeId, u32), usize>) {
        for record in records.iter().filter(|record| !record.forks.is_empty()) {
            for ((_, seat), index) in found.range((record.id, 0)..=(record.id, u32::MAX)) {
                for (turn, part) in (0..).zip(&mut self.trajectories[*index].turns) {
                    let shares = |fork: &&gymkhana_record::Fork| {
                        fork.turns.get(*seat as usize).is_some_and(|turns| turn < *turns)
                    };
                    let owner = record.forks.iter().find(shares).and_then(|fork| found.get(&(fork.parent, *seat)));
                    part.shared_with = owner.copied();
                }
            }
        }
    }

    /// The sequences of one episode, with what `target` makes of each token; none of nothing.
    pub(super) fn sequences<'a>(
        &'a self,
        episode: &'a LaidEpisode,
        target: impl Fn(&Trajectory, &Token) -> Option<Target> + 'a,
    ) -> impl Iterator<Item = Sequence> + 'a {
        episode.contexts.iter().filter_map(move |laid| {
            let targets = laid.places.iter().filter_map(|place| {
                let trajectory = &self.trajectories[place.trajectory];
                let found = target(trajectory, &trajectory.turns[place.turn].tokens[place.token])?;
                Some(Target { at: place.at, turn: place.turn as u32, ..found })
            });
            Sequence::new(&laid.tokens, targets.collect())
        })
    }

    /// Sets a number of every token that `chosen` says something of, in the order of [`Batch::sequences`] over all
    /// episodes.
    pub(super) fn set(&mut self, told: &[Vec<f32>], set: impl Fn(&mut Token, f64)) {
        let places = self.episodes.iter().flat_map(|episode| &episode.contexts).filter(|laid| !laid.places.is_empty());
        for (laid, numbers) in places.zip(told) {
            for (place, number) in laid.places.iter().zip(numbers) {
                set(&mut self.trajectories[place.trajectory].turns[place.turn].tokens[place.token], f64::from(*number));
            }
        }
    }

    /// All sequences, every token a target.
    pub(super) fn whole(&self) -> Vec<Sequence> {
        self.episodes.iter().flat_map(|episode| self.sequences(episode, |_, _| Some(Target::default()))).collect()
    }
}

/// The tokens of a segment that are learnt here: not those of turns that belong to the episode from which this one
/// parted, and not the first, before which there is nothing.
fn lay(segment: &Segment, index: usize, shared: u32, trajectory: &mut Trajectory) -> Option<Laid> {
    let mut places = Vec::new();
    for at in (1..segment.len()).filter(|at| segment.sampled()[*at] && segment.turns()[*at] >= shared) {
        let turn = segment.turns()[at] as usize;
        if trajectory.turns.len() <= turn {
            trajectory.turns.resize_with(turn + 1, TurnPart::default);
        }
        let tokens = &mut trajectory.turns[turn].tokens;
        places.push(Place { at, trajectory: index, turn, token: tokens.len() });
        let log_prob = f64::from(segment.log_probs()[at]);
        tokens.push(Token {
            behaviour: log_prob,
            proximal: log_prob,
            entropy: f64::from(segment.entropies()[at]),
            version: segment.versions()[at],
            ..Token::default()
        });
    }
    let last = places.last()?.at;
    Some(Laid { tokens: segment.tokens()[..=last].to_vec(), places })
}

/// A seat's part of a record, without its tokens.
fn trajectory(record: &EpisodeRecord, seat: u32, reward: f64) -> Trajectory {
    let of_seat = |numbers: &[Vec<f64>]| numbers.get(seat as usize).cloned().unwrap_or_default();
    let (rewards, gains) = (of_seat(&record.turn_rewards), of_seat(&record.turn_gains));
    let own: Vec<&PolicyTurn> = record.policy_turns.iter().filter(|turn| turn.seat == seat).collect();
    let count = own.len().max(rewards.len());
    let turns = (0..count).map(|turn| {
        let number = |numbers: &[f64]| numbers.get(turn).copied().unwrap_or(0.0);
        TurnPart {
            reward: number(&rewards) + number(&gains),
            anchor: own.get(turn).map_or(0, |_| anchor(record, &own, turn, seat)),
            void: own.get(turn).is_some_and(|_| is_void(record, &own, turn, seat)),
            ..TurnPart::default()
        }
    });
    Trajectory {
        seat,
        reward,
        rest: reward - rewards.iter().sum::<f64>(),
        finished: !record.ending.is_limit(),
        turns: turns.collect(),
        ..Trajectory::default()
    }
}

/// Names what the seat was shown and answered between its turn before and this one.
fn anchor(record: &EpisodeRecord, own: &[&PolicyTurn], turn: usize, seat: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    if turn == 0 {
        let shown = record.opening.observations.iter().filter(|(to, _)| *to == seat);
        shown.for_each(|(_, content)| text_of(content).hash(&mut hasher));
    }
    let begin = turn.checked_sub(1).map_or(0, |before| own[before].transcript as usize);
    for heard in record.turns.get(begin..own[turn].transcript as usize).unwrap_or_default() {
        match heard {
            Turn::Answer { seat: to, content, .. } | Turn::Observation { seat: to, content } if *to == seat => {
                text_of(content).hash(&mut hasher);
            }
            _ => {}
        }
    }
    hasher.finish()
}

/// Whether a turn did nothing: the seat could call and did not, and the episode did not end with it.
fn is_void(record: &EpisodeRecord, own: &[&PolicyTurn], turn: usize, seat: u32) -> bool {
    let may_call = record.opening.functions.iter().any(|at| at.seat == seat && !at.functions.is_empty());
    let end = own.get(turn + 1).map_or(record.turns.len(), |next| next.transcript as usize);
    let done = record.turns.get(own[turn].transcript as usize..end).unwrap_or_default();
    let calls = done.iter().any(|turn| matches!(turn, Turn::Call { seat: by, .. } if *by == seat));
    let ended = turn + 1 == own.len() && record.ending == Ending::Terminated;
    may_call && !calls && !ended && own[turn].note.is_none()
}

/// Lays out demonstrations: tokens that the expert wrote share a weight of 1, all others one of `other_tokens`.
pub(crate) fn demonstration_sequences(
    demonstrations: &[Segment],
    settings: &SftSettings,
) -> Result<Vec<Sequence>, TrainerError> {
    let learnable =
        |segment: &Segment, sampled: bool| segment.sampled().iter().skip(1).filter(|found| **found == sampled).count();
    let count = |sampled: bool| demonstrations.iter().map(|segment| learnable(segment, sampled)).sum::<usize>();
    let (by_expert, others) = (count(true), count(false));
    if by_expert == 0 {
        let problem = "none of their tokens is marked as sampled".to_owned();
        return Err(TrainerError::Data { what: format!("{} demonstrations", demonstrations.len()), problem });
    }
    let weights = [(settings.other_tokens / others.max(1) as f64) as f32, 1.0 / by_expert as f32];
    let sequences = demonstrations.iter().filter_map(|segment| {
        let targets = segment.sampled().iter().enumerate().skip(1).map(|(at, sampled)| Target {
            at,
            weight: weights[usize::from(*sampled)],
            advantage: f32::from(u8::from(*sampled)),
            ..Target::default()
        });
        Sequence::new(segment.tokens(), targets.filter(|target| target.weight > 0.0).collect())
    });
    Ok(sequences.collect())
}
