//! One live episode: its start, its turns and what it is between them.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_driver::{Episode, EpisodeSeeds, EpisodeSetup, Extent, NoHooks, Reply, StartFailure};
use gymkhana_record::{Boundary, Call, CallSite, Ending, EpisodeId, EpisodeRecord, Failure, Seed, TaskRef, Turn};

use super::types::{Action, CallAnswer, Opened, Step};
use crate::catalog::ServedEnvironment;
use crate::config::EpisodeLimits;
use crate::error::{ErrorKind, Owner, ServeError};

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
    pub(super) last: Option<Arc<(Reply, Step)>>,
}

/// A live episode.
pub(super) struct LiveEpisode {
    pub(super) episode: Episode,
    pub(super) facts: EpisodeFacts,
}

/// An environment that did not start: the record and the error.
pub(super) struct NotStarted {
    pub(super) record: Box<EpisodeRecord>,
    pub(super) error: ServeError,
}

/// Seeds of the plugins of an episode, as in a run.
pub(super) fn seeds(seed: Seed) -> EpisodeSeeds {
    EpisodeSeeds { environment: seed.child("environment"), tools: seed.child("tool") }
}

impl LiveEpisode {
    /// Starts an episode.
    pub(super) async fn start(
        served: &ServedEnvironment,
        limits: &EpisodeLimits,
        (record, task, seed): (EpisodeId, TaskRef, Seed),
    ) -> Result<(Self, Opened), NotStarted> {
        let setup = EpisodeSetup {
            environment: served.bound(),
            tools: served.tools(),
            task: task.clone(),
            seeds: seeds(seed),
            overrides: Arc::default(),
            max_bytes: limits.bytes(),
        };
        let facts = EpisodeFacts { record, task: task.clone(), seed, begun: Instant::now(), turns: 0, last: None };
        let failed = |failed: StartFailure| NotStarted::new(&facts, failed);
        let mut episode = Episode::start(setup, &NoHooks).await.map_err(failed)?;
        let seats = u32::try_from(served.info().seats.len()).unwrap_or(u32::MAX);
        if let Err(failure) = episode.offer(seats, &[]) {
            let logs = episode.data.logs.into_entries();
            return Err(failed(StartFailure { failure, exchanges: episode.data.exchanges, logs }));
        }
        episode.observe_opening(&mut NoHooks);
        let data = &episode.data;
        let opened = Opened {
            task,
            seed: seed.0,
            observations: data.opening.observations.clone(),
            offered: data.opening.functions.clone(),
            seat: data.seat,
        };
        Ok((Self { episode, facts }, opened))
    }

    /// Takes a turn, or answers the last one again.
    ///
    /// # Errors
    /// If another seat or another turn is meant.
    pub(super) async fn act(&mut self, limits: &EpisodeLimits, action: Action) -> Result<Step, ServeError> {
        let Action { seat, reply, turn } = action;
        if let Some(again) = self.facts.repeated(&reply, turn)? {
            return Ok(again);
        }
        let data = &self.episode.data;
        if let Some(wrong) = seat.filter(|seat| *seat != data.seat) {
            let message = format!("seat {wrong} cannot act: seat {} is to move", data.seat);
            return Err(ServeError::agent(ErrorKind::OutOfOrder, message));
        }
        let (seat, before) = (data.seat, data.extent());
        let ending = self.episode.take_turn(&mut NoHooks, reply.clone(), u32::MAX).await;
        let number = self.facts.turns;
        self.facts.turns += 1;
        let ending = ending.or_else(|| self.reached(limits));
        self.episode.data.ending = ending;
        let step = self.step((number, seat), before, ending);
        self.facts.last = Some(Arc::new((reply, step.clone())));
        Ok(step)
    }

    /// The record of an episode that has just started.
    pub(super) fn begun(&self) -> EpisodeRecord {
        let data = &self.episode.data;
        let EpisodeFacts { record, task, seed, .. } = &self.facts;
        EpisodeRecord {
            opening: data.opening.clone(),
            turns: data.turns.clone(),
            environment_rewards: data.rewards.clone(),
            exchanges: data.exchanges.clone(),
            ..EpisodeRecord::new(*record, task.clone(), *seed, Ending::Dropped)
        }
    }

    /// The first limit that leaves no room for another turn.
    fn reached(&self, limits: &EpisodeLimits) -> Option<Ending> {
        if self.facts.turns >= u64::from(limits.turns) {
            Some(Ending::TurnLimit)
        } else if self.episode.data.calls >= limits.calls {
            Some(Ending::CallLimit)
        } else if self.facts.begun.elapsed() >= limits.time() {
            Some(Ending::TimeLimit)
        } else {
            None
        }
    }

    /// What one turn added.
    fn step(&self, (turn, seat): (u64, u32), before: Extent, ending: Option<Ending>) -> Step {
        let data = &self.episode.data;
        let added = data.since(before);
        let failures = added.failures.to_vec();
        let (mut calls, mut answers, mut observations) = (Vec::new(), Vec::new(), Vec::new());
        for added in added.turns.iter() {
            match added {
                Turn::Message { .. } => {}
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
        Step {
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

impl EpisodeFacts {
    /// The seat to move after the last turn.
    pub(super) fn next_seat(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.1.next_seat)
    }

    /// The last answer, if this turn repeats the last one.
    ///
    /// # Errors
    /// If the number is neither the next turn's nor that of the same turn as the last.
    pub(super) fn repeated(&self, reply: &Reply, turn: Option<u64>) -> Result<Option<Step>, ServeError> {
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

impl NotStarted {
    fn new(facts: &EpisodeFacts, failed: StartFailure) -> Self {
        let StartFailure { failure, exchanges, logs } = failed;
        let invalid = failure.kind == gymkhana_record::FailureKind::Refused;
        let error = match &failure.at {
            Boundary::Environment(_) if invalid => ServeError::bad_input(failure.to_string()),
            _ => ServeError::from(&failure),
        };
        let ending = if failure.kind.is_hosts() { Ending::Dropped } else { Ending::EnvironmentFailed };
        let record = EpisodeRecord {
            exchanges,
            logs,
            failures: vec![failure],
            ..EpisodeRecord::new(facts.record, facts.task.clone(), facts.seed, ending)
        };
        Self { record: Box::new(record), error }
    }
}
