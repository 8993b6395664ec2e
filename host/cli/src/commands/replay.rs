//! `host replay`: replays recorded episodes from their tokens and compares all plugin output.

use futures::StreamExt;
use futures::stream;

use gymkhana_record::{Ending, EpisodeId};
use gymkhana_rollout::ReplayDifference;
use gymkhana_store::{RunReader, StoreError};
use tokio::sync::Semaphore;

use crate::args::ReplayArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;
use gymkhana_orchestration::environments::{Environments, recorded_environments};
use gymkhana_orchestration::grants::OutboundMode;
use gymkhana_orchestration::groups;
use gymkhana_orchestration::plugins;
use gymkhana_orchestration::{ProgressFigures, Work, run_file_of};

/// Groups replayed concurrently.
const CONCURRENT_GROUPS: usize = 16;
/// Maximum number of differing episodes to report.
const MAX_REPORTED: u64 = 10;
/// Limits of a call in seconds: a call that finished when it was recorded finishes here on any machine, and a call that
/// timed out is not repeated.
const CALL_LIMIT: f64 = 86_400.0;

/// Hint for a run with plugins of a contract that this host does not implement.
const EARLIER_CONTRACT: &str =
    "replay it with the host that recorded it; here `host show`, `host data export` and `host rescore` read it";

/// Results of replays.
#[derive(Default)]
pub struct Tally {
    equal: u64,
    different: u64,
    /// Dropped by the host when recorded, and not replayed.
    pub dropped: u64,
    /// Equal to the record, but with a fork that ends differently.
    forks_differ: u64,
    /// Forks that were replayed.
    pub forks: u64,
}

/// An episode whose replay differs from the record.
pub struct Differing {
    id: EpisodeId,
    /// Turn before which a fork began, if the fork differs and the episode does not.
    pub turn: Option<u32>,
    /// The first difference.
    pub difference: ReplayDifference,
}

fn episodes(count: u64) -> String {
    counted(count as usize, "episode")
}

/// Runs the command.
pub fn replay(args: &ReplayArgs, printer: &Printer) -> CliResult<()> {
    let mut found = 0;
    let tally = run(args, printer, |differing| {
        found += 1;
        if found <= MAX_REPORTED {
            report(&differing, printer);
        }
    })?;
    conclude(&tally, args, printer)
}

/// Replays the episodes of the arguments, and passes on those that differ.
pub fn run(args: &ReplayArgs, printer: &Printer, on_difference: impl FnMut(Differing)) -> CliResult<Tally> {
    let run = RunReader::open(&args.dir)?;
    let mut file = run_file_of(&run, &[])?;
    // A failure of the host ends a replay without retries.
    file.rules.failures.retries = 0;
    (file.rules.sandbox.budget_seconds, file.rules.sandbox.wall_seconds) = (CALL_LIMIT, CALL_LIMIT);
    file.rules.sandbox.episode_budget_seconds = CALL_LIMIT;
    let files = plugins::recorded_files(&run)?;
    plugins::check_contracts(&files, EARLIER_CONTRACT)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(async {
        let (environments, places) =
            recorded_environments(&run, &file, &files, OutboundMode::Recorded, &printer.reporter()).await?;
        compare(&environments, places, &run, args, printer, on_difference).await
    })
}

/// Prints what was replayed; an error if anything differs.
fn conclude(tally: &Tally, args: &ReplayArgs, printer: &Printer) -> CliResult<()> {
    printer.result(format!("{} replayed, every byte equal: {}", episodes(tally.equal + tally.different), tally.equal));
    if tally.dropped > 0 {
        printer.result(format!("{} skipped: dropped when recorded", episodes(tally.dropped)));
    }
    if tally.different > 0 {
        let message = format!(
            "replay diverged: {} of {} cannot be reproduced",
            tally.different,
            episodes(tally.equal + tally.different)
        );
        let hint = "docs/how-to/debug-a-replay.md explains how to find the cause";
        return Err(CliError::internal(message).with_hint(hint));
    }
    if args.forks || args.fork.is_some() {
        printer.result(format!("episodes with equal forks: {}", tally.equal - tally.forks_differ));
        printer.result(format!("forks replayed: {}", tally.forks));
    }
    if tally.forks_differ > 0 {
        let message = format!(
            "forks diverged in {}: a plugin's snapshot does not hold its whole state",
            episodes(tally.forks_differ)
        );
        return Err(CliError::internal(message).with_hint("run `host plugin test` on the plugin"));
    }
    Ok(())
}

async fn compare(
    environments: &Environments,
    places: u32,
    run: &RunReader,
    args: &ReplayArgs,
    printer: &Printer,
    mut on_difference: impl FnMut(Differing),
) -> CliResult<Tally> {
    let only = args.episode;
    let episodes = run.episodes()?;
    if let Some(id) = only.filter(|id| !episodes.contains(*id)) {
        return Err(StoreError::NoEpisode(id).into());
    }
    let length = if only.is_some() { 1 } else { episodes.len() };
    let progress = printer.progress(Work::new("replay", length as u64));
    let mut tally = Tally::default();
    let most = (places as usize / environments.places()).max(1);
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
            // As in a run: without this bound, episodes could deadlock waiting for each other's capacity.
            let _room = room.acquire_many(group.as_ref().map_or(1, |group| group.len().min(most) as u32)).await;
            let (recorded, dropped): (Vec<_>, Vec<_>) =
                group?.into_iter().partition(|record| record.ending != Ending::Dropped);
            let replayed = match recorded.first() {
                Some(first) => environments.of(first)?.rollout.replay_group(&recorded).await.internal()?,
                None => vec![],
            };
            CliResult::Ok((recorded, replayed, dropped.len() as u64))
        })
        .buffered(CONCURRENT_GROUPS);
    while let Some(group) = replays.next().await {
        let (recorded, replayed, dropped) = group?;
        tally.dropped += dropped;
        for (recorded, replayed) in recorded.iter().zip(&replayed) {
            if only.is_some_and(|id| id != recorded.id) {
                continue;
            }
            let id = recorded.id;
            if let Some(difference) = ReplayDifference::between(recorded, replayed) {
                tally.different += 1;
                on_difference(Differing { id, turn: None, difference });
                continue;
            }
            tally.equal += 1;
            let rollout = &environments.of(recorded)?.rollout;
            let check = match args.fork {
                Some(turn) => rollout.check_fork_before(recorded, turn).await.user_error()?,
                None if args.forks => rollout.check_forks(recorded).await.internal()?,
                None => continue,
            };
            tally.forks += u64::from(check.forks);
            if let Some((turn, difference)) = check.difference {
                tally.forks_differ += 1;
                on_difference(Differing { id, turn: Some(turn), difference });
            }
        }
        let figures = ProgressFigures::of(format!("{} differ", tally.different));
        progress.at(tally.equal + tally.different, &figures);
    }
    Ok(tally)
}

fn report(differing: &Differing, printer: &Printer) {
    let Differing { id, turn, difference } = differing;
    let forked = turn.map_or_else(String::new, |turn| format!(", forked before turn {turn},"));
    printer.status(format!(
        "episode {id}{forked} differs at {}\n  recorded: {:.200}\n  replayed: {:.200}",
        difference.place, difference.recorded, difference.replayed
    ));
}
