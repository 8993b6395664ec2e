//! One live episode: its start, its turns and what it is between them.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_chat::ThoughtMarks;
use gymkhana_driver::{EpisodeData, Extent, NoHooks, Reply, StartFailure};
use gymkhana_record::{Boundary, Call, CallSite, Ending, EpisodeId, EpisodeRecord, Failure, Seed, TaskRef, Turn};
use gymkhana_rules::Limits;

use super::location::EpisodeLocation;
use super::place::LivePlace;
use super::types::{CallAnswer, ResetResult, TurnAnswer, TurnRequest};
use crate::catalog::ServedEnvironment;
use crate::error::{ErrorKind, Owner, ServeError};
use crate::remote::{FinishOrder, RemoteError};

/// What the host knows of an episode, live or parked.
#[derive(Debug, Clone)]
pub(super) struct EpisodeFacts {
    /// Id of the record.
    pub(super) record: EpisodeId,
    pub(super) task: TaskRef,
    pub(super) seed: Seed,
    pub(super) begun: Instant,
    /// Turns taken by all seats.
    pub(super) turns: u64,
    /// The last turn, which is answered again when it is repeated with its number.
    pub(super) last: Option<Arc<(Reply, TurnAnswer)>>,
}

/// A live episode.
pub(super) struct ActiveEpisode {
    pub(super) player: EpisodeLocation,
    pub(super) facts: EpisodeFacts,
}

/// An ended episode.
pub(super) struct EndedEpisode {
    pub(super) record: EpisodeRecord,
    pub(super) facts: EpisodeFacts,
}

impl ActiveEpisode {
    /// Starts an episode at its place.
    pub(super) async fn start(
        served: &ServedEnvironment,
        limits: &Limits,
        place: &LivePlace,
        (record, task, seed): (EpisodeId, TaskRef, Seed),
    ) -> Result<(Self, ResetResult), RemoteError> {
        let facts = EpisodeFacts { record, task: task.clone(), seed, begun: Instant::now(), turns: 0, last: None };
        let player = EpisodeLocation::start(place, served, limits, task.clone(), seed).await?;
        let data = player.data();
        let opened = ResetResult {
            task,
            seed: seed.0,
            observations: data.opening.observations.clone(),
            offered: data.opening.functions.clone(),
            seat: data.seat,
        };
        Ok((Self { player, facts }, opened))
    }

    /// Host's part of the episode.
    pub(super) fn data(&self) -> &EpisodeData {
        self.player.data()
    }

    /// Takes a turn, or answers the last one again.
    ///
    /// # Errors
    /// If another seat or another turn is meant, or the worker is lost; the episode is then as before.
    pub(super) async fn act(&mut self, limits: &Limits, action: TurnRequest) -> Result<TurnAnswer, RemoteError> {
        let TurnRequest { seat, reply, turn } = action;
        let reply = without_thoughts(reply);
        if let Some(again) = self.facts.repeated(&reply, turn)? {
            return Ok(again);
        }
        let data = self.data();
        if let Some(wrong) = seat.filter(|seat| *seat != data.seat) {
            let message = format!("seat {wrong} cannot act: seat {} is to move", data.seat);
            return Err(ServeError::agent(ErrorKind::OutOfOrder, message).into());
        }
        let (seat, before) = (data.seat, data.extent());
        let ending = match &mut self.player {
            EpisodeLocation::Local(episode) => episode.take_turn(&mut NoHooks, reply.clone(), u32::MAX).await,
            EpisodeLocation::Remote(episode) => episode.turn(reply.clone()).await?,
        };
        let number = self.facts.turns;
        self.facts.turns += 1;
        let ending = ending.or_else(|| self.reached(limits));
        self.player.data_mut().ending = ending;
        let step = self.step((number, seat), before, ending);
        self.facts.last = Some(Arc::new((reply, step.clone())));
        Ok(step)
    }

    /// Ends and scores the episode. `ending` is that of an episode that neither the environment nor a limit ended.
    ///
    /// # Errors
    /// If it is at a worker that does not give the record; the episode is then as before.
    pub(super) async fn finish(
        self: Box<Self>,
        served: &ServedEnvironment,
        ending: Ending,
    ) -> Result<EndedEpisode, (Box<Self>, RemoteError)> {
        let Self { player, facts } = *self;
        let order = FinishOrder {
            record: facts.record,
            task: facts.task.clone(),
            seed: facts.seed,
            ending: player.data().ending.unwrap_or(ending),
            age_ms: facts.begun.elapsed().as_secs_f64() * 1e3,
            scored: true,
        };
        match player.finish(served, facts.begun, order).await {
            Ok(record) => Ok(EndedEpisode { record: *record, facts }),
            Err((player, error)) => Err((Box::new(Self { player, facts }), error)),
        }
    }

    /// The record of an episode as far as it is known.
    pub(super) fn known(&self) -> EpisodeRecord {
        self.facts.known(self.data())
    }

    /// The first limit that leaves no room for another turn.
    fn reached(&self, limits: &Limits) -> Option<Ending> {
        if self.facts.turns >= u64::from(limits.turns) {
            Some(Ending::TurnLimit)
        } else if self.data().calls >= limits.calls {
            Some(Ending::CallLimit)
        } else if self.facts.begun.elapsed() >= limits.time {
            Some(Ending::TimeLimit)
        } else {
            None
        }
    }

    /// What one turn added.
    fn step(&self, (turn, seat): (u64, u32), before: Extent, ending: Option<Ending>) -> TurnAnswer {
        let data = self.data();
        let added = data.since(before);
        let failures = added.failures.to_vec();
        let (mut calls, mut answers, mut observations) = (Vec::new(), Vec::new(), Vec::new());
        for added in added.turns.iter() {
            match added {
                Turn::Thought { .. } | Turn::Message { .. } => {}
                Turn::Call { call, .. } => calls.push(call.clone()),
                Turn::MalformedCall { id, .. } => {
                    calls.push(Call { id: id.clone(), name: String::new(), arguments: String::new() });
                }
                Turn::Answer { id, content, failed, .. } => {
                    let failed = failed.then(|| owner_of_failed_call(&failures, id));
                    // Answers follow the calls of their turn.
                    if let Some(call) = calls.iter().find(|call| call.id == *id).cloned() {
                        answers.push(CallAnswer { call, content: content.clone(), failed });
                    }
                }
                Turn::Observation { seat, content } => observations.push((*seat, content.clone())),
            }
        }
        let rewards = added.rewards.iter().map(|earned| earned.iter().fold(0.0, |sum, reward| sum + reward)).collect();
        TurnAnswer {
            turn,
            seat,
            answers,
            observations,
            rewards,
            ending,
            extras: data.extras.clone(),
            failures,
            next_seat: data.seat,
            score: None,
        }
    }
}

/// The party that made a call fail. A tool that answers with an error of its own refuses what the agent asked.
fn owner_of_failed_call(failures: &[Failure], id: &str) -> Owner {
    let of_call = |failure: &&Failure| failure.call_site == CallSite::tool(id);
    failures.iter().find(of_call).map_or(Owner::Agent, Owner::of)
}

/// A reply whose thoughts are apart from its message. The model is unknown here, and so is the prompt.
fn without_thoughts(reply: Reply) -> Reply {
    if reply.thoughts.is_some() {
        return reply;
    }
    let split = ThoughtMarks::split_any(&reply.message);
    match split.thoughts.map(str::to_owned) {
        Some(thoughts) => Reply { thoughts: Some(thoughts), message: split.message.to_owned(), calls: reply.calls },
        None => reply,
    }
}

impl EpisodeFacts {
    /// The record of an episode as far as it is known: that of one which has just started, or whose worker is lost.
    pub(super) fn known(&self, data: &EpisodeData) -> EpisodeRecord {
        EpisodeRecord {
            opening: data.opening.clone(),
            turns: data.turns.clone(),
            environment_rewards: data.rewards.clone(),
            exchanges: data.exchanges.clone(),
            ..EpisodeRecord::new(self.record, self.task.clone(), self.seed, Ending::Dropped)
        }
    }

    /// The record of an episode whose plugin instances are lost.
    pub(super) fn dropped(&self, data: &EpisodeData, why: &str) -> EpisodeRecord {
        let failure = Failure {
            at: Boundary::Host,
            kind: gymkhana_record::FailureKind::Fault,
            call_site: CallSite::Step(data.steps),
            message: why.to_owned(),
        };
        let failures = data.failures.iter().cloned().chain([failure]).collect();
        EpisodeRecord { extras: data.extras.clone(), failures, costs: data.costs.clone(), ..self.known(data) }
    }

    /// The seat to move after the last turn.
    pub(super) fn next_seat(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.1.next_seat)
    }

    /// The last answer, if this turn repeats the last one.
    ///
    /// # Errors
    /// If the number is neither the next turn's nor that of the same turn as the last.
    pub(super) fn repeated(&self, reply: &Reply, turn: Option<u64>) -> Result<Option<TurnAnswer>, ServeError> {
        let Some(number) = turn.filter(|turn| *turn != self.turns) else { return Ok(None) };
        match &self.last {
            Some(last) if last.1.turn == number && last.0 == *reply => Ok(Some(last.1.clone())),
            _ => {
                let message = format!("turn {number} cannot be taken: the next turn is {}", self.turns);
                Err(ServeError::agent(ErrorKind::OutOfOrder, message))
            }
        }
    }
}

impl EndedEpisode {
    /// Keeps the answer to the turn that ended the episode, with its scores.
    pub(super) fn remember(&mut self, step: &TurnAnswer) {
        if let Some(last) = &self.facts.last {
            self.facts.last = Some(Arc::new((last.0.clone(), step.clone())));
        }
    }
}

/// Record and error of an episode whose environment did not start.
pub(super) fn not_started(
    (record, task, seed): (EpisodeId, TaskRef, Seed),
    failed: StartFailure,
) -> (EpisodeRecord, ServeError) {
    let StartFailure { failure, exchanges, logs } = failed;
    let invalid = failure.kind == gymkhana_record::FailureKind::Refused;
    let error = match &failure.at {
        Boundary::Environment(_) if invalid => ServeError::bad_input(failure.to_string()),
        _ => ServeError::from(&failure),
    };
    let ending = if failure.kind.is_hosts() { Ending::Dropped } else { Ending::EnvironmentFailed };
    let failures = vec![failure];
    (EpisodeRecord { exchanges, logs, failures, ..EpisodeRecord::new(record, task, seed, ending) }, error)
}
