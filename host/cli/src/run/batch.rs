//! Plays many groups side by side and stores each as soon as it is finished.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use gymkhana_episode::{EpisodeId, EpisodeRecord, Phase, TaskRef};
use gymkhana_rollout::{EpisodePlan, PluginSet, Sampling, Speaker};

use super::Session;
use crate::error::{Blame, CliError, CliResult};
use crate::printer::Progress;
use crate::runfile::{RunFile, Stage};

/// The share of failures is judged from so many episodes on.
const ENOUGH: u64 = 20;

/// What is played in one go.
pub(super) struct Batch {
    pub phase: Phase,
    pub step: u64,
    /// One group for each.
    pub tasks: Vec<TaskRef>,
    pub group_size: u32,
    pub sampling: Sampling,
}

impl Session<'_> {
    /// Plays a batch; its groups come back in the order of its tasks.
    pub(super) async fn play(
        &mut self,
        batch: &Batch,
        progress: Option<&Progress>,
    ) -> CliResult<Vec<Vec<EpisodeRecord>>> {
        let stage = self.progress.stage as u32;
        let room = Semaphore::new(self.in_flight(batch.group_size));
        let policy = self.trainer.clone();
        let speaker = match batch.phase {
            Phase::Demonstration => Speaker::Oracle,
            _ => Speaker::Policy(&policy),
        };
        let (rollout, room) = (&self.rollout, &room);
        let mut playing: FuturesUnordered<_> = (0_u32..)
            .zip(&batch.tasks)
            .map(|(group, task)| {
                let plans: Vec<EpisodePlan> = (0..batch.group_size)
                    .map(|member| {
                        let id = EpisodeId { stage, phase: batch.phase, step: batch.step, group, member, attempt: 0 };
                        let place = group * batch.group_size + member;
                        let seed = self.episode_seed(id);
                        EpisodePlan { id, task: task.clone(), seed, sampling: batch.sampling, place }
                    })
                    .collect();
                async move {
                    let _room = room.acquire_many(batch.group_size).await;
                    (group as usize, rollout.run_group(plans, speaker).await)
                }
            })
            .collect();
        let mut groups: Vec<Vec<EpisodeRecord>> = batch.tasks.iter().map(|_| vec![]).collect();
        let (mut done, mut solved) = (0, 0);
        while let Some((group, records)) = playing.next().await {
            let records = records.ours()?;
            for record in &records {
                self.episodes.append(record)?;
                self.rollout.success().check_record(record).map_err(|error| super::with_nearest_name(&error))?;
                done += 1;
                solved += u64::from(record.success);
                self.failed.0 += u64::from(!record.failures.is_empty());
                self.failed.1 += 1;
            }
            if let Some(progress) = progress {
                progress.at(done, &format!("success {:.1} %", 100.0 * solved as f64 / done as f64));
            }
            groups[group] = records;
        }
        drop(playing);
        self.episodes.sync()?;
        self.judge_failures(&groups)?;
        Ok(groups)
    }

    /// How many episodes are in flight at once: as many as the policy generates side by side, and no more than can
    /// have all their instances alive, since episodes that wait for each other's places would wait for ever.
    fn in_flight(&self, group_size: u32) -> usize {
        let most = self.places as usize / self.rollout.plugins().instances();
        self.file.policy.slots.max(group_size as usize).min(most)
    }

    fn judge_failures(&self, groups: &[Vec<EpisodeRecord>]) -> CliResult<()> {
        let (failed, all) = self.failed;
        let limit = self.file.failures.limit;
        if all < ENOUGH || failed as f64 <= limit * all as f64 {
            return Ok(());
        }
        let last = groups.iter().flatten().flat_map(|record| record.failures.iter().map(move |each| (record.id, each)));
        let last = last.last().map(|(id, failure)| format!("; the last, in episode {id}: {failure}"));
        Err(CliError::mistake(format!(
            "{failed} of {all} episodes of this stage met a failure, more than failures.limit = {limit} allows{}",
            last.unwrap_or_default()
        )))
    }
}

/// Refuses a stage whose groups cannot have all their instances alive: `places` is how many may live at once.
pub(super) fn check_places(file: &RunFile, plugins: &PluginSet, places: u32) -> CliResult<()> {
    let instances = plugins.instances();
    for stage in &file.stages {
        let group = match stage {
            Stage::Sft(_) => 1,
            Stage::Rl(stage) => stage.group_size as usize,
        };
        let needed = group * instances;
        if needed > places as usize {
            return Err(CliError::mistake(format!(
                "stage `{}`: a group of {group} with {instances} plugins each needs {needed} live instances, but only \
                 {places} may live; lower group_size, or raise sandbox.instances or vm.max_map_count",
                stage.name()
            )));
        }
    }
    Ok(())
}
