//! Scores of finished trajectories; each group is scored in a new store.

use std::collections::BTreeSet;
use std::sync::Arc;

use gymkhana_record::{Component, Cost, Evidence, NamedValue, Score, SeatRewards, Seed, Turn};
use gymkhana_registry::Kind;

use super::exported;
use super::trajectory::Trajectory;
use crate::bindings::exports::gymkhana::plugin::reward;
use crate::bindings::gymkhana::plugin::types;
use crate::convert::ContentParam;
use crate::instance::slot::{CallKind, Slot};
use crate::unsandboxed::{Unsandboxed, contract_ending};
use crate::{CallError, CallFuture, Plugin, RewardInfo, convert, info};

impl Plugin {
    /// Returns the reward's description, requested once and cached.
    ///
    /// # Errors
    /// If the plugin is not a reward, fails, or returns a description that breaks the contract.
    pub fn reward_info(&self) -> CallFuture<'_, Arc<RewardInfo>> {
        Box::pin(async move {
            let describe = async || {
                let mut slot = open(self, Seed(0)).await?;
                let call = async |guest: Guest<'_>| guest.exports.call_describe(guest.store).await;
                let outside = |code: &dyn Unsandboxed| code.describe_reward();
                let info = slot.call_infallible(CallKind::Auxiliary("describe"), call, outside, info::reward).await?;
                let declared = self.manifest().reward_range.map(|range| (range.low, range.high));
                if declared.is_some_and(|range| range != (info.range.low, info.range.high)) {
                    let mismatch = format!("it describes the range {}, and its manifest another one", info.range);
                    return Err(CallError::malformed(mismatch));
                }
                Ok(Arc::new(info))
            };
            self.reward_cell().get_or_try_init(describe).await.cloned()
        })
    }
}

type Guest<'a> = crate::instance::slot::Guest<'a, reward::Guest>;

/// Opens an instance of its own.
async fn open(plugin: &Plugin, seed: Seed) -> Result<Slot<reward::Guest>, CallError> {
    plugin.check_kind(Kind::Reward)?;
    Slot::open(plugin, seed, |store, instance| exported(plugin, |indices| &indices.reward)?.load(store, instance)).await
}

/// Scores a group of attempts at one task. Returns one list per trajectory, in their order, with one score per seat that
/// made a turn.
///
/// # Errors
/// If the plugin is not a reward, fails, rejects an option, or breaks the contract: NaN, a number outside its range,
/// components other than described, a wrong number of scores.
pub fn score<'a>(
    plugin: &'a Plugin,
    group: &'a [Trajectory<'a>],
    options: &'a [NamedValue],
    training_step: u64,
    seed: Seed,
) -> CallFuture<'a, Vec<Vec<Score>>> {
    Box::pin(async move { Scorer::open(plugin, seed).await?.score(group, options, training_step).await })
}

/// Places in the transcript of the turns that a reward receives: thoughts only if it asks for them.
fn received(turns: &[Turn], thoughts: bool) -> Vec<usize> {
    let wanted = |(_, turn): &(usize, &Turn)| thoughts || !matches!(turn, Turn::Thought { .. });
    turns.iter().enumerate().filter(wanted).map(|(place, _)| place).collect()
}

/// A live reward. Training opens one per scoring; scoring more than once serves to measure the cost of a new store.
pub struct Scorer {
    info: Arc<RewardInfo>,
    /// Whether the reward receives thoughts.
    thoughts: bool,
    slot: Slot<reward::Guest>,
}

impl Scorer {
    /// Instantiates the reward.
    ///
    /// # Errors
    /// As [`score`].
    pub fn open(plugin: &Plugin, seed: Seed) -> CallFuture<'_, Self> {
        Box::pin(async move {
            {
                let (info, thoughts) = (plugin.reward_info().await?, plugin.manifest().thoughts);
                Ok(Self { info, thoughts, slot: open(plugin, seed).await? })
            }
        })
    }

    /// Cost of the last call; that of the first includes the start.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.slot.cost()
    }

    /// Scores one group.
    ///
    /// # Errors
    /// As [`score`].
    pub fn score<'a>(
        &'a mut self,
        group: &'a [Trajectory<'a>],
        options: &'a [NamedValue],
        training_step: u64,
    ) -> CallFuture<'a, Vec<Vec<Score>>> {
        Box::pin(async move {
            let Self { info, thoughts, slot } = self;
            let places: Vec<Vec<usize>> = group.iter().map(|one| received(one.turns, *thoughts)).collect();
            let lists: Vec<Lists<'_>> = group.iter().zip(&places).map(|(one, places)| Lists::of(one, places)).collect();
            let turns: Vec<Vec<reward::Turn<'_>>> = lists.iter().map(turns).collect();
            let group_param: Vec<reward::Trajectory<'_>> = group
                .iter()
                .zip(&lists)
                .zip(&turns)
                .map(|((one, lists), turns)| lists.trajectory(one, turns))
                .collect();
            let given = convert::named_value_params(options);
            let call = async |guest: Guest<'_>| {
                guest.exports.call_score(guest.store, &group_param, &given, training_step).await
            };
            let outside = |code: &dyn Unsandboxed| code.score(group, options, training_step);
            slot.call(CallKind::Advancing, call, outside, |scores| accept(scores, group, &places, info)).await
        })
    }
}

/// Lists that the arguments of a trajectory borrow from.
struct Lists<'a> {
    turns: Vec<&'a Turn>,
    contents: Vec<ContentParam<'a>>,
    rewards: Vec<reward::SeatRewards<'a>>,
    extras: Vec<types::NamedValueParam<'a>>,
    privileged: Vec<types::NamedValueParam<'a>>,
    views: Vec<types::NamedValueParam<'a>>,
}

impl<'a> Lists<'a> {
    fn of(trajectory: &Trajectory<'a>, places: &[usize]) -> Self {
        let turns: Vec<&'a Turn> = places.iter().filter_map(|place| trajectory.turns.get(*place)).collect();
        let contents = |turn: &&'a Turn| match *turn {
            Turn::Message { content, .. } | Turn::Answer { content, .. } | Turn::Observation { content, .. } => {
                ContentParam::of(content)
            }
            Turn::Thought { text, .. } => ContentParam::of_text(text),
            Turn::Call { .. } | Turn::MalformedCall { .. } => ContentParam::of(&[]),
        };
        let rewards = |seat: &'a SeatRewards| reward::SeatRewards { seat: seat.seat, rewards: &seat.rewards };
        Self {
            contents: turns.iter().map(contents).collect(),
            turns,
            rewards: trajectory.environment_rewards.iter().map(rewards).collect(),
            extras: convert::named_value_params(trajectory.extras),
            privileged: convert::named_value_params(trajectory.privileged),
            views: convert::named_value_params(trajectory.views),
        }
    }

    fn trajectory(&'a self, trajectory: &Trajectory<'a>, turns: &'a [reward::Turn<'a>]) -> reward::Trajectory<'a> {
        reward::Trajectory {
            task: types::TaskParam { split: &trajectory.task.split, index: trajectory.task.index },
            turns,
            ending: contract_ending(trajectory.ending),
            environment_rewards: &self.rewards,
            extras: &self.extras,
            privileged: &self.privileged,
            views: &self.views,
        }
    }
}

fn turns<'a>(lists: &'a Lists<'a>) -> Vec<reward::Turn<'a>> {
    let turn = |(turn, parts): (&&'a Turn, &'a ContentParam<'a>)| match *turn {
        Turn::Thought { seat, .. } => reward::Turn::Other(seat_message(*seat, parts)),
        Turn::Message { seat, .. } => reward::Turn::Message(seat_message(*seat, parts)),
        Turn::Observation { seat, .. } => reward::Turn::Observation(seat_message(*seat, parts)),
        Turn::Call { seat, call, cost } => {
            reward::Turn::Call(reward::SeatCall { seat: *seat, call: convert::call_param(call), cost: *cost })
        }
        Turn::MalformedCall { seat, id, text } => {
            // The contract has no variant for it: a call without a name, whose arguments are the text.
            let call = types::CallParam { id, name: "", arguments: text };
            reward::Turn::Call(reward::SeatCall { seat: *seat, call, cost: 0.0 })
        }
        Turn::Answer { seat, id, failed, .. } => {
            let content = parts.as_slice();
            reward::Turn::Answer(reward::CallAnswer { seat: *seat, id, content, failed: *failed })
        }
    };
    lists.turns.iter().zip(&lists.contents).map(turn).collect()
}

fn seat_message<'a>(seat: u32, parts: &'a ContentParam<'a>) -> reward::SeatMessage<'a> {
    reward::SeatMessage { seat, content: parts.as_slice() }
}

fn accept(
    scores: Vec<Vec<reward::SeatScore>>,
    group: &[Trajectory<'_>],
    places: &[Vec<usize>],
    info: &RewardInfo,
) -> Result<Vec<Vec<Score>>, String> {
    if scores.len() != group.len() {
        return Err(format!("{} trajectories received {} lists of scores", group.len(), scores.len()));
    }
    let one = |((scores, trajectory), places): ((Vec<reward::SeatScore>, &Trajectory<'_>), &Vec<usize>)| {
        let seats: Vec<u32> = scores.iter().map(|score| score.seat).collect();
        let expected = trajectory.seats();
        if seats.len() != expected.len() || !seats.iter().all(|seat| expected.contains(seat)) {
            return Err(format!("seats {expected:?} made turns and scores are for seats {seats:?}"));
        }
        if seats.iter().collect::<BTreeSet<_>>().len() != seats.len() {
            return Err(format!("a seat has two scores: {seats:?}"));
        }
        scores.into_iter().map(|score| accept_one(score, trajectory, places, info)).collect()
    };
    scores.into_iter().zip(group).zip(places).map(one).collect()
}

/// Checks a score. `places` are those of the turns that the reward received, in the transcript.
fn accept_one(
    score: reward::SeatScore,
    trajectory: &Trajectory<'_>,
    places: &[usize],
    info: &RewardInfo,
) -> Result<Score, String> {
    let reward::SeatScore { seat, total, components, turns, evidence } = score;
    if let Some(number) = std::iter::once(&total).chain(&turns).find(|number| !info.range.contains(**number)) {
        return Err(format!("seat {seat} received {number}, outside the range {}", info.range));
    }
    let names = || components.iter().map(|component| component.name.as_str());
    if !names().eq(info.components.iter().map(|component| component.name.as_str())) {
        return Err(format!("a score has the components {:?}, other than described", names().collect::<Vec<_>>()));
    }
    if let Some(component) = components.iter().find(|component| !component.value.is_finite()) {
        return Err(format!("the component `{}` is {}", component.name, component.value));
    }
    let messages = trajectory.messages_of(seat);
    if !turns.is_empty() && turns.len() != messages {
        return Err(format!("seat {seat} made {messages} messages and received {} turn rewards", turns.len()));
    }
    let passage = |span: reward::Evidence| {
        let place = places.get(span.turn as usize).filter(|_| span.start <= span.end);
        let place = place
            .and_then(|place| u32::try_from(*place).ok())
            .ok_or_else(|| format!("evidence is in turn {} at bytes {} to {}", span.turn, span.start, span.end))?;
        Ok(Evidence { turn: place, start: span.start, end: span.end, note: span.note })
    };
    let evidence = evidence.into_iter().map(passage).collect::<Result<_, String>>()?;
    Ok(Score {
        seat,
        total,
        components: components
            .into_iter()
            .map(|component| Component { name: component.name, value: component.value })
            .collect(),
        turns,
        evidence,
    })
}
