//! `host replay`: recorded episodes again, from their tokens, compared byte by byte.

use futures::StreamExt;
use futures::stream;

use gymkhana_record::{Ending, EpisodeId};
use gymkhana_rollout::{Difference, Rollout};
use gymkhana_store::{RunReader, StoreError};
use tokio::sync::Semaphore;

use crate::args::ReplayArgs;
use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use gymkhana_config::RunFile;
use gymkhana_run::groups;
use gymkhana_run::setup::grants::OutboundMode;
use gymkhana_run::setup::plugins;
use gymkhana_run::setup::rollout::recorded_rollout;

/// So many groups are replayed side by side.
const SIDE_BY_SIDE: usize = 16;
/// So many differing episodes are told one by one.
const TOLD: u64 = 10;
/// What a call may take, in seconds: one that ended when it was recorded ends here as well, however slow this machine
/// is, and one that ran out of its time is not called again.
const PATIENCE: f64 = 86_400.0;

#[derive(Default)]
struct Tally {
    equal: u64,
    different: u64,
    /// The host gave them up when they were recorded: they end where the recording does.
    dropped: u64,
    /// Replayed as they were recorded, but one of their forks came to another end.
    forked_elsewhere: u64,
}

/// Replays.
pub fn replay(args: &ReplayArgs, printer: &Printer) -> CliResult<()> {
    let run = RunReader::open(&args.dir)?;
    let mut file = RunFile::parse(&run.run_text()?, "run.toml", &[]).user_error()?;
    // A fault of the host ends a replay; it is not tried again.
    file.failures.retries = 0;
    (file.sandbox.budget_seconds, file.sandbox.wall_seconds) = (PATIENCE, PATIENCE);
    file.sandbox.episode_budget_seconds = PATIENCE;
    let files = plugins::recorded_files(&run)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    let tally = runtime.block_on(async {
        let (rollout, places) =
            recorded_rollout(&run, &file, &files, OutboundMode::Recorded, &printer.reporter()).await?;
        compare(&rollout, places, &run, args, printer).await
    })?;
    printer.result(format!("{} episodes replayed, every byte equal: {}", tally.equal + tally.different, tally.equal));
    if tally.dropped > 0 {
        printer.result(format!("{} episodes were dropped when they were recorded and are not replayed", tally.dropped));
    }
    if tally.different > 0 {
        let message = format!("{} episodes differ from their record", tally.different);
        return Err(anyhow::anyhow!(message)).internal();
    }
    if args.forks {
        printer
            .result(format!("forks that came to the recorded end: those of {}", tally.equal - tally.forked_elsewhere));
    }
    if tally.forked_elsewhere > 0 {
        let message = format!(
            "{} episodes have a fork that comes to another end: a plugin's snapshot is not its whole state",
            tally.forked_elsewhere
        );
        return Err(anyhow::anyhow!(message)).internal();
    }
    Ok(())
}

async fn compare(
    rollout: &Rollout,
    places: u32,
    run: &RunReader,
    args: &ReplayArgs,
    printer: &Printer,
) -> CliResult<Tally> {
    let only = args.episode;
    let episodes = run.episodes()?;
    if let Some(id) = only.filter(|id| !episodes.contains(*id)) {
        return Err(StoreError::NoEpisode(id).into());
    }
    let length = if only.is_some() { 1 } else { episodes.len() };
    let progress = printer.progress("replay", 0, length as u64);
    let mut tally = Tally::default();
    let most = (places as usize / rollout.plugins().places()).max(1);
    let room = &Semaphore::new(most);
    let mut replays = stream::iter(groups(episodes.read_all()))
        .filter(|group| {
            let wanted = match (group, only) {
                (Ok(group), Some(id)) => group.iter().any(|record| record.id == id),
                _ => true,
            };
            std::future::ready(wanted)
        })
        .map(|group| async move {
            // As in the run: episodes that wait for each other's places would wait for ever.
            let _room = room.acquire_many(group.as_ref().map_or(1, |group| group.len().min(most) as u32)).await;
            let (recorded, dropped): (Vec<_>, Vec<_>) =
                group?.into_iter().partition(|record| record.ending != Ending::Dropped);
            let replayed = rollout.replay_group(&recorded).await.internal()?;
            CliResult::Ok((recorded, replayed, dropped.len() as u64))
        })
        .buffered(SIDE_BY_SIDE);
    while let Some(group) = replays.next().await {
        let (recorded, replayed, dropped) = group?;
        tally.dropped += dropped;
        for (recorded, replayed) in recorded.iter().zip(&replayed) {
            if only.is_some_and(|id| id != recorded.id) {
                continue;
            }
            match Difference::between(recorded, replayed) {
                None => {
                    tally.equal += 1;
                    if args.forks
                        && let Some((turn, difference)) = rollout.check_forks(recorded).await.internal()?
                    {
                        tally.forked_elsewhere += 1;
                        if tally.forked_elsewhere <= TOLD {
                            let at = format!(", forked in front of turn {turn},");
                            tell(recorded.id, &at, &difference, printer);
                        }
                    }
                }
                Some(difference) => {
                    tally.different += 1;
                    if tally.different <= TOLD {
                        tell(recorded.id, "", &difference, printer);
                    }
                }
            }
        }
        progress.at(tally.equal + tally.different, &format!("{} differ", tally.different));
    }
    Ok(tally)
}

fn tell(id: EpisodeId, forked: &str, difference: &Difference, printer: &Printer) {
    printer.status(format!(
        "episode {id}{forked} differs at {}\n  recorded: {:.200}\n  replayed: {:.200}",
        difference.place, difference.recorded, difference.replayed
    ));
}
