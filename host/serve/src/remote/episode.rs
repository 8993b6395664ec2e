//! An episode whose plugin instances are at a worker, as the front knows it.

use std::sync::Arc;

use gymkhana_driver::{BackendError, CallRefusal, EpisodeData, Reply, StartFailure};
use gymkhana_record::{Boundary, CallCost, CallSite, Ending, EpisodeRecord, NamedValue, SeatRewards, TaskRef};
use gymkhana_sandbox::Image;
use gymkhana_store::decode_episodes;

use super::messages::{
    EpisodeOrigin, EpisodeOutcome, EpisodeRequest, FinishOrder, PlaceAnswer, PlaceRequest, ProgramCall,
};
use super::places::{PlaceLost, WorkerPlace};
use crate::error::{ErrorKind, ServeError};

/// An episode at a worker.
pub(crate) struct RemoteEpisode {
    place: Arc<dyn WorkerPlace>,
    /// Host's part after the last answered request.
    pub(crate) data: EpisodeData,
    /// State of the plugins at the same time, as JSON; empty without snapshots.
    plugins: Arc<[u8]>,
}

/// Reason why an episode has not started, or a request to it has no result. [`BackendError::Lost`] is a lost worker.
pub(crate) type RemoteError = BackendError<ServeError>;

impl From<ServeError> for RemoteError {
    fn from(error: ServeError) -> Self {
        Self::Failed(error)
    }
}

impl From<PlaceLost> for RemoteError {
    fn from(lost: PlaceLost) -> Self {
        Self::Lost(lost.to_string())
    }
}

/// How the worker was lost.
///
/// # Errors
/// If the request failed for another reason, which another worker does not change.
pub(crate) fn lost_worker(error: RemoteError) -> Result<String, ServeError> {
    match error {
        RemoteError::Lost(why) => Ok(why),
        RemoteError::Failed(error) => Err(error),
        RemoteError::NotStarted(failed) => Err(ServeError::from(&failed.failure)),
        RemoteError::NoPlace(why) => Err(ServeError::host(ErrorKind::Full, why)),
        RemoteError::Refused(refusal) => Err(ServeError::agent(ErrorKind::OutOfOrder, refusal.to_string())),
    }
}

impl RemoteEpisode {
    /// Starts an episode of this number of seats at a worker.
    pub(crate) async fn start(
        place: Arc<dyn WorkerPlace>,
        origin: EpisodeOrigin,
        seats: usize,
        task: TaskRef,
    ) -> Result<Self, RemoteError> {
        let request = EpisodeRequest::Start(origin, task.clone());
        let answer = place.ask(request.into()).await?;
        match answer.outcome {
            EpisodeOutcome::Started => {
                let data = decode(&answer.data).and_then(|data| match refusal_of_start(&data, &task, seats) {
                    None => Ok(data),
                    Some(why) => Err(why.to_owned()),
                });
                let data = data.map_err(|why| place.refuse(&why))?;
                Ok(Self { place, data, plugins: answer.plugins })
            }
            EpisodeOutcome::NotStarted { failure, exchanges, logs } => {
                Err(RemoteError::NotStarted(StartFailure { failure, exchanges, logs }))
            }
            EpisodeOutcome::Failed(error) => Err(error.into()),
            other => Err(unexpected(&*place, &other).into()),
        }
    }

    /// Continues an episode at a worker. `plugins` is the state of its plugins.
    pub(crate) async fn restore(
        place: Arc<dyn WorkerPlace>,
        origin: EpisodeOrigin,
        data: EpisodeData,
        plugins: Arc<[u8]>,
    ) -> Result<Self, RemoteError> {
        let text = serde_json::to_vec(&data).map_err(|error| {
            let message = format!("the session cannot continue: its state cannot be written: {error}");
            ServeError::host(ErrorKind::Failed, message)
        })?;
        let request = EpisodeRequest::Restore(origin);
        let request = PlaceRequest { request, data: text.into(), plugins: Arc::clone(&plugins) };
        match place.ask(request).await?.outcome {
            EpisodeOutcome::Restored => Ok(Self { place, data, plugins }),
            EpisodeOutcome::Failed(error) => Err(error.into()),
            other => Err(unexpected(&*place, &other).into()),
        }
    }

    /// State of the plugins; `None` if a plugin offers no snapshots.
    pub(crate) fn plugins(&self) -> Option<&Arc<[u8]>> {
        Some(&self.plugins).filter(|plugins| !plugins.is_empty())
    }

    /// The state after the last answered request; `None` if a plugin offers no snapshots.
    pub(crate) fn into_state(self) -> Option<(EpisodeData, Arc<[u8]>)> {
        Some((self.data, self.plugins)).filter(|(_, plugins)| !plugins.is_empty())
    }

    /// Takes a turn of the seat to move. Without an answer nothing has changed here.
    pub(crate) async fn turn(&mut self, reply: Reply) -> Result<Option<Ending>, RemoteError> {
        match self.ask(EpisodeRequest::Turn(reply)).await? {
            EpisodeOutcome::Turn(ending) => Ok(ending),
            other => Err(self.unexpected(&other).into()),
        }
    }

    /// Answers a call of an agent program.
    pub(crate) async fn call(&mut self, call: ProgramCall) -> Result<Result<Option<Ending>, CallRefusal>, RemoteError> {
        match self.ask(EpisodeRequest::Call(call)).await? {
            EpisodeOutcome::Called(called) => Ok(called),
            other => Err(self.unexpected(&other).into()),
        }
    }

    /// The environment's values for rewards and teachers.
    pub(crate) async fn privileged(&mut self) -> Result<Vec<NamedValue>, RemoteError> {
        match self.ask(EpisodeRequest::Privileged).await? {
            EpisodeOutcome::Privileged(view) => Ok(view),
            other => Err(self.unexpected(&other).into()),
        }
    }

    /// A picture of the state.
    pub(crate) async fn render(&mut self) -> Result<Image, RemoteError> {
        match self.ask(EpisodeRequest::Render).await? {
            EpisodeOutcome::Rendered(image) => Ok(image),
            other => Err(self.unexpected(&other).into()),
        }
    }

    /// Ends and scores the episode.
    pub(crate) async fn finish(&mut self, order: FinishOrder) -> Result<Box<EpisodeRecord>, RemoteError> {
        let answer = self.place.ask(EpisodeRequest::Finish(order.clone()).into()).await?;
        match answer.outcome {
            EpisodeOutcome::Finished => {}
            EpisodeOutcome::Failed(error) => return Err(error.into()),
            other => return Err(self.unexpected(&other).into()),
        }
        let records = decode_episodes(&answer.data).map_err(|error| self.place.refuse(&error.to_string()))?;
        let Ok([record]) = <[EpisodeRecord; 1]>::try_from(records) else {
            return Err(self.place.refuse("it sent another number of records than one").into());
        };
        match refusal_of_record(&self.data, &order, &record) {
            None => Ok(Box::new(record)),
            Some(why) => Err(self.place.refuse(why).into()),
        }
    }

    /// Asks for something that changes the episode.
    async fn ask(&mut self, request: EpisodeRequest) -> Result<EpisodeOutcome, RemoteError> {
        let plays = matches!(request, EpisodeRequest::Turn(_) | EpisodeRequest::Call(_));
        let answer = self.place.ask(request.into()).await?;
        if !answer.data.is_empty() {
            let unplayed = matches!(answer.outcome, EpisodeOutcome::Called(Err(_)) | EpisodeOutcome::Failed(_));
            if plays && unplayed {
                return Err(self.place.refuse("it sent a state with a request that it did not perform").into());
            }
            self.accept(&answer)?;
        }
        if let EpisodeOutcome::Turn(ending) | EpisodeOutcome::Called(Ok(ending)) = &answer.outcome
            && !self.is_ended_by_environment(*ending)
        {
            return Err(self.place.refuse("it sent another ending than that of its state").into());
        }
        match answer.outcome {
            EpisodeOutcome::Failed(error) => Err(error.into()),
            EpisodeOutcome::Turn(_)
            | EpisodeOutcome::Called(Ok(_))
            | EpisodeOutcome::Privileged(_)
            | EpisodeOutcome::Rendered(_)
                if answer.data.is_empty() =>
            {
                Err(self.place.refuse("it sent an answer without a state").into())
            }
            outcome => Ok(outcome),
        }
    }

    /// Whether the state has this ending, and an environment may give it.
    fn is_ended_by_environment(&self, ending: Option<Ending>) -> bool {
        let may = [Ending::Terminated, Ending::Truncated, Ending::EnvironmentFailed];
        self.data.ending == ending && ending.is_none_or(|ending| may.contains(&ending))
    }

    /// Takes the state of an answer.
    fn accept(&mut self, answer: &PlaceAnswer) -> Result<(), PlaceLost> {
        let data = decode(&answer.data).map_err(|why| self.place.refuse(&why))?;
        if let Some(why) = refusal_of_state(&self.data, &data) {
            return Err(self.place.refuse(why));
        }
        (self.data, self.plugins) = (data, Arc::clone(&answer.plugins));
        Ok(())
    }

    fn unexpected(&self, outcome: &EpisodeOutcome) -> PlaceLost {
        unexpected(&*self.place, outcome)
    }
}

/// The error of an outcome that does not belong to the request.
fn unexpected(place: &dyn WorkerPlace, outcome: &EpisodeOutcome) -> PlaceLost {
    match outcome {
        EpisodeOutcome::Unknown => {
            PlaceLost { worker: place.worker().to_owned(), why: "does not have the episode".to_owned() }
        }
        _ => place.refuse("it sent the answer to another request"),
    }
}

fn decode(data: &[u8]) -> Result<EpisodeData, String> {
    serde_json::from_slice(data).map_err(|error| format!("it sent a malformed episode: {error}"))
}

/// The reason why this is not the beginning of an episode.
fn refusal_of_start(data: &EpisodeData, task: &TaskRef, seats: usize) -> Option<&'static str> {
    if data.task != *task {
        Some("it sent an episode of another task")
    } else if data.rewards.len() != seats || data.seat as usize >= seats.max(1) {
        Some("it sent an episode of other seats")
    } else if data.steps > 0 || data.calls > 0 || data.ending.is_some() {
        Some("it sent an episode that has begun")
    } else {
        None
    }
}

/// The reason why an episode does not continue the known one.
fn refusal_of_state(known: &EpisodeData, sent: &EpisodeData) -> Option<&'static str> {
    let seats = known.rewards.len();
    if sent.task != known.task || sent.rewards.len() != seats || sent.seat as usize >= seats.max(1) {
        Some("it sent another episode")
    } else if !sent.turns.starts_with(&known.turns)
        || !sent.failures.starts_with(&known.failures)
        || !sent.exchanges.starts_with(&known.exchanges)
        || !same_calls(&known.costs, &sent.costs)
        || !sent.logs.entries().starts_with(known.logs.entries())
        || sent.opening != known.opening
        || sent.steps < known.steps
        || sent.calls < known.calls
        || (known.ending.is_some() && sent.ending != known.ending)
    {
        Some("it sent an episode that does not continue the known one")
    } else if !continues(&known.rewards, &sent.rewards) {
        Some("it sent other rewards than before, or one that is not finite")
    } else {
        None
    }
}

/// The reason why a record is not that of the known episode.
fn refusal_of_record(known: &EpisodeData, order: &FinishOrder, record: &EpisodeRecord) -> Option<&'static str> {
    if record.id != order.record || record.task != order.task || record.seed != order.seed {
        Some("it sent the record of another episode")
    } else if record.turns != known.turns || !continues(&known.rewards, &record.environment_rewards) {
        Some("it sent a record of other turns")
    } else if record.opening != known.opening
        || !record.failures.starts_with(&known.failures)
        || !record.exchanges.starts_with(&known.exchanges)
        || !record.logs.starts_with(known.logs.entries())
        || !same_calls(&known.costs, &record.costs)
    {
        Some("it sent a record that does not continue the known episode")
    } else if !ends_as(order.ending, record) {
        Some("it sent a record with another ending")
    } else if !record.rewards.iter().all(|reward| reward.is_finite()) {
        Some("it sent a reward that is not finite")
    } else {
        None
    }
}

/// Whether costs begin with those of the known calls. Numbers may differ in their last digit after they were written.
fn same_calls(known: &[CallCost], sent: &[CallCost]) -> bool {
    let calls = |costs: &[CallCost]| -> Vec<(Boundary, CallSite)> {
        costs.iter().take(known.len()).map(|cost| (cost.at.clone(), cost.call_site.clone())).collect()
    };
    calls(known) == calls(sent)
}

/// Whether a record may end so after this ending: an environment may break its totals at a limit, and a fault of the host
/// drops the episode.
fn ends_as(ordered: Ending, record: &EpisodeRecord) -> bool {
    let fault = record.failures.iter().any(|failure| failure.kind.is_hosts());
    record.ending == ordered
        || (record.ending == Ending::EnvironmentFailed && ordered.is_limit())
        || (record.ending == Ending::Dropped && fault)
}

/// Whether rewards of each seat begin with the known ones and are finite.
fn continues(known: &[SeatRewards], sent: &[SeatRewards]) -> bool {
    known.len() == sent.len()
        && known.iter().zip(sent).all(|(known, sent)| {
            sent.seat == known.seat
                && sent.rewards.starts_with(&known.rewards)
                && sent.rewards.iter().all(|reward| reward.is_finite())
        })
}

#[cfg(test)]
mod tests;
