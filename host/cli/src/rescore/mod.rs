//! `host score` and `host reward diff`: recorded episodes scored again, without being played again.

mod diff;
mod lines;
mod score;
mod statistics;

use std::path::Path;

use futures::StreamExt;
use futures::stream;
use gymkhana_episode::{Ending, EpisodeRecord};
use gymkhana_rollout::{ChatFormat, Rollout};
use gymkhana_store::RunReader;
use tokio::sync::Semaphore;

use crate::assembly;
use crate::error::{Blame, CliResult};
use crate::plugins::{self, PluginFile};
use crate::printer::Printer;
use crate::recorded::groups;
use crate::run::read_chat_files;
use crate::runfile::RunFile;
use crate::world::{Asking, AssetFiles};

pub use diff::diff;
pub use score::score;

/// So many groups are scored side by side.
const SIDE_BY_SIDE: usize = 16;

/// Scores all episodes of a run with these plugins, group by group in the order of the record, and gives each group as
/// it was and as it is scored now. Episodes that the host had to drop are left out.
async fn score_run(
    dir: &Path,
    run: &RunReader,
    file: &RunFile,
    files: &[PluginFile],
    printer: &Printer,
    mut each: impl FnMut(&[EpisodeRecord], &[EpisodeRecord]) -> CliResult<()>,
) -> CliResult<()> {
    let assets = AssetFiles::recorded(file, run)?;
    let sandbox = plugins::sandbox(file, printer)?;
    let set = plugins::assemble(file, &sandbox, files, &assets, Asking::Live).await?;
    let assembly = assembly::assembly(file, &set)?;
    let chat = ChatFormat::new(&read_chat_files(dir)?).users()?;
    let limits = (&file.limits).into();
    let rollout = &Rollout::new(set, chat, limits, assembly, None, file.failures.retries);
    let episodes = run.episodes()?;
    let progress = printer.progress("score", 0, episodes.len() as u64);
    // A reward is scored in one instance at a time, whatever the size of its group.
    let room = &Semaphore::new((sandbox.counters().places as usize / rollout.plugins().places()).max(1));
    let mut scored = stream::iter(groups(episodes.read_all()))
        .map(|group| async move {
            let recorded: Vec<EpisodeRecord> =
                group?.into_iter().filter(|record| record.ending != Ending::Dropped).collect();
            let _room = room.acquire().await.ours()?;
            let now = rollout.score_again(&recorded).await;
            CliResult::Ok((recorded, now))
        })
        .buffered(SIDE_BY_SIDE);
    let mut done = 0;
    while let Some(group) = scored.next().await {
        let (recorded, now) = group?;
        each(&recorded, &now)?;
        done += recorded.len() as u64;
        progress.at(done, "");
    }
    Ok(())
}
