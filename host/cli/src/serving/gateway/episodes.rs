//! The episodes of a gateway: each session is one, with the next task of the run or the task that its harness names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use gymkhana_gateway::control::{ApiError, Episodes, ErrorClass, HarnessResult, SessionRequest};
use gymkhana_orchestration::seat_players::SeatPlayers;
use gymkhana_orchestration::served::{Served, ServedSeats};
use gymkhana_orchestration::tasks::TaskOrder;
use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};
use gymkhana_rollout::{Actor, EpisodePlan, Rollout, RolloutError};
use gymkhana_sandbox::SplitInfo;
use tokio::runtime::Handle;

use super::records::GatewayRecords;
use crate::error::{Classify, CliResult};

/// The tasks of sessions that name none.
struct Tasks {
    order: TaskOrder,
    /// Position of the next one in the order.
    next: u64,
    /// Tasks of sessions that were refused for want of a place; the next sessions have them.
    returned: Vec<TaskRef>,
}

impl Tasks {
    /// The task of the next session.
    fn take(&mut self) -> Option<TaskRef> {
        self.returned.pop().or_else(|| {
            self.next += 1;
            self.order.take(self.next - 1, 1).pop()
        })
    }
}

/// The episodes of a gateway.
pub(super) struct GatewayEpisodes {
    rollout: Arc<Rollout>,
    seats: ServedSeats,
    sampling: Sampling,
    seeds: Seed,
    splits: Vec<SplitInfo>,
    tasks: Arc<Mutex<Tasks>>,
    next: AtomicU32,
    records: Arc<GatewayRecords>,
    guests: Handle,
}

impl GatewayEpisodes {
    /// Episodes of this rollout.
    ///
    /// # Errors
    /// If the environment has no task in its training split.
    pub(super) async fn new(
        served: &Served,
        temperature: f32,
        records: Arc<GatewayRecords>,
        guests: &Handle,
    ) -> CliResult<Self> {
        let (file, set) = (&served.file, served.rollout.plugins());
        let environment = set.environment();
        Ok(Self {
            rollout: Arc::clone(&served.rollout),
            seats: served.seats.clone(),
            sampling: if temperature == 0.0 { Sampling::GREEDY } else { Sampling::at(temperature) },
            seeds: Seed(file.seed).child("episode"),
            splits: environment.plugin.splits(&environment.options).await.user_error()?,
            tasks: Arc::new(Mutex::new(Tasks {
                order: TaskOrder::of_sampler(&file.sampler, set, &file.rules.environment.train, Seed(file.seed))
                    .await?,
                next: records.first().into(),
                returned: vec![],
            })),
            next: AtomicU32::new(records.first()),
            records,
            guests: guests.clone(),
        })
    }

    /// Rejects a task that the environment does not have.
    fn check(&self, task: &TaskRef) -> Result<(), ApiError> {
        let wrong = |message| Err(ApiError::new(ErrorClass::Invalid, message));
        let Some(split) = self.splits.iter().find(|split| split.name == task.split) else {
            let known: Vec<String> = self.splits.iter().map(|split| format!("`{}`", split.name)).collect();
            return wrong(format!("there is no split `{}`\nhint: use {}", task.split, known.join(", ")));
        };
        match split.tasks {
            Some(tasks) if task.index >= tasks => {
                wrong(format!("split `{}` has {tasks} tasks, and no task {}", task.split, task.index))
            }
            _ => Ok(()),
        }
    }

    fn plan(&self, id: EpisodeId, wanted: &SessionRequest) -> EpisodePlan {
        let next = || self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = wanted.task.clone().or_else(next);
        EpisodePlan {
            id,
            task: task.unwrap_or_else(|| TaskRef { split: String::new(), index: u64::from(id.group) }),
            seed: wanted.seed.map_or_else(|| self.seeds.child(id.group), Seed),
            sampling: self.sampling,
            place: id.group,
            turns: None,
            guidance: None,
        }
    }
}

impl Episodes for GatewayEpisodes {
    fn next(&self, wanted: &SessionRequest) -> Result<EpisodeId, ApiError> {
        wanted.task.as_ref().map_or(Ok(()), |task| self.check(task))?;
        let group = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(EpisodeId { stage: 0, phase: Phase::Served, step: 0, group, member: 0, attempt: 0 })
    }

    fn play(&self, id: EpisodeId, wanted: SessionRequest) -> BoxFuture<'static, Result<HarnessResult, ApiError>> {
        let (plan, records) = (self.plan(id, &wanted), Arc::clone(&self.records));
        let (rollout, seats) = (Arc::clone(&self.rollout), self.seats.clone());
        let (task, tasks) = (plan.task.clone(), Arc::clone(&self.tasks));
        let is_next = wanted.task.is_none();
        let playing = self.guests.spawn(async move {
            let players = seats.players();
            rollout.run_group(vec![plan], Actor::Seats(&players)).await
        });
        Box::pin(async move {
            let failed = |why: String| ApiError::new(ErrorClass::Policy, format!("the episode failed: {why}"));
            let played = playing.await.map_err(|error| failed(error.to_string()))?;
            let record = played.map_err(|error| match error {
                RolloutError::NoPlace(why) => {
                    if is_next {
                        tasks.lock().unwrap_or_else(PoisonError::into_inner).returned.push(task);
                    }
                    ApiError::new(ErrorClass::Unavailable, format!("no session can be opened: {why}"))
                }
                error => failed(error.to_string()),
            });
            let record =
                record.and_then(|mut played| played.pop().ok_or_else(|| failed("it has no record".to_owned())));
            // An episode without a record would have none after a restart either.
            let record = record.inspect_err(|_| records.end(id))?;
            let ended = ended(&record);
            // The harness gets its result once the record is stored.
            records.store(record).await;
            Ok(ended)
        })
    }
}

/// The result of a record.
fn ended(record: &EpisodeRecord) -> HarnessResult {
    HarnessResult {
        episode: record.id.to_string(),
        ending: record.ending.to_string(),
        reward: record.rewards.first().copied(),
        success: record.success,
        turns: record.policy_turns.len(),
        failures: record.failures.iter().map(ToString::to_string).collect(),
    }
}
