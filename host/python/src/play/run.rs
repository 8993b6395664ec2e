//! A rollout from its request to the records of its episodes.

use std::sync::Arc;

use gymkhana_config::RunFile;
use gymkhana_orchestration::places::{check_group, most_in_flight};
use gymkhana_orchestration::rewards::with_nearest_name;
use gymkhana_orchestration::scheduler::{FinishedGroup, GroupBatch, GroupRunner, GroupTask, Scheduler};
use gymkhana_orchestration::served::{Served, ServedSeats};
use gymkhana_orchestration::tasks::TaskOrder;
use gymkhana_orchestration::{Reporter, RunError, RunResult};
use gymkhana_record::{Ending, EpisodeRecord, Phase, Seed, TaskRef};
use gymkhana_rollout::PluginSet;
use gymkhana_sandbox::Limits;
use gymkhana_store::RunFolder;
use tokio::sync::Semaphore;

use crate::play::folder::{Contents, Folder};
use crate::play::request::{Groups, Request};
use crate::runtime::Host;

/// Plays the groups. Episodes are in the order of their tasks.
///
/// # Errors
/// If the plugins, the server, the tasks or the folder cannot be used, or the server fails for good.
pub async fn play(request: Request, host: &'static Host, reporter: Arc<dyn Reporter>) -> RunResult<Vec<EpisodeRecord>> {
    let Request { file, plugins, components, lock, granted, groups, out, .. } = request;
    let Groups { count, size, sampling, tasks } = groups;
    if let Some(path) = &out {
        RunFolder::check_free(path).map_err(|error| RunError::from(error).with_hint("choose another `out`"))?;
    }
    let served = Served::connect(file, plugins, &reporter).await?;
    let places = host.sandbox(Limits::default()).map_err(internal)?.counters().places;
    let set = served.rollout.plugins();
    check_group("play", size as usize, set, places)?;
    let tasks = self::tasks(&served.file, set, tasks, u64::from(count)).await?;
    let in_flight = served.file.policy.max_concurrent_sequences.max(size as usize);
    let in_flight = in_flight.min(most_in_flight(set, places));
    let runner = GroupRunner {
        rollouts: vec![Arc::clone(&served.rollout)],
        seats: served.seats.clone(),
        seeds: Seed(served.file.seed).child("episode"),
        stage: 0,
        guests: host.handle().clone(),
        permits: Arc::new(Semaphore::new(in_flight)),
        remote: None,
    };
    let tasks = tasks.into_iter().map(GroupTask::from).collect();
    let batch = GroupBatch { group_size: size, ..GroupBatch::of_single_episodes(Phase::Train, 0, tasks, sampling) };
    let contents = out.map(|path| Contents { path, granted, components, lock });
    let folder = contents.map(|contents| Folder::create(contents, &served)).transpose()?;
    collect(Scheduler::new(runner), &batch, &served, folder).await
}

fn internal(fault: impl std::fmt::Debug) -> RunError {
    RunError::internal(format!("{fault:?}"))
}

/// Tasks of the groups: those that were given, or those that a run would take first.
async fn tasks(file: &RunFile, set: &PluginSet, given: Option<Vec<u64>>, groups: u64) -> RunResult<Vec<TaskRef>> {
    let split = &file.rules.environment.train;
    let mut sampler = TaskOrder::of_sampler(&file.sampler, set, split, Seed(file.seed)).await?;
    let Some(given) = given else { return Ok(sampler.take(0, groups)) };
    let count = sampler.count().unwrap_or(u64::MAX);
    if let Some(wrong) = given.iter().find(|index| **index >= count) {
        return Err(RunError::user(format!(
            "task {wrong} does not exist: split `{split}` has {count} tasks\nhint: use 0 to {}",
            count.saturating_sub(1)
        )));
    }
    Ok(given.into_iter().map(|index| TaskRef { split: split.clone(), index }).collect())
}

/// Plays the batch to its end.
async fn collect(
    mut scheduler: Scheduler<ServedSeats>,
    batch: &GroupBatch,
    served: &Served,
    mut folder: Option<Folder>,
) -> RunResult<Vec<EpisodeRecord>> {
    let mut in_flight = scheduler.start(batch);
    while let Some(arrival) = scheduler.next().await {
        let FinishedGroup { place, records, .. } = arrival?;
        for record in &records {
            if let Some(folder) = &mut folder {
                folder.add(record)?;
            }
            if record.ending == Ending::Dropped
                && let Some(problem) = served.seats.gave_up()
            {
                return Err(RunError::user(problem).with_hint("check the server's log, and play again"));
            }
            served.rollout.check_facts(record).map_err(|error| with_nearest_name(&error))?;
        }
        in_flight.arrive(place, records);
    }
    if let Some(folder) = folder {
        folder.finish()?;
    }
    Ok(in_flight.into_groups().into_iter().flatten().collect())
}
