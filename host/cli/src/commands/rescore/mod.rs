//! `host rescore` and `host reward diff`: score recorded episodes again without playing them.

mod diff;
mod score;
mod statistics;

use futures::StreamExt;
use futures::stream;
use gymkhana_record::{Ending, EpisodeRecord, Phase};
use gymkhana_store::RunReader;
use tokio::sync::Semaphore;

use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use gymkhana_config::RunFile;
use gymkhana_orchestration::environments::recorded_environments;
use gymkhana_orchestration::grants::OutboundMode;
use gymkhana_orchestration::groups;
use gymkhana_orchestration::plugins;
use gymkhana_orchestration::{ProgressFigures, Work};
use gymkhana_registry::PluginFile;

pub use diff::diff;
pub use score::score;

/// Groups scored concurrently.
const CONCURRENT_GROUPS: usize = 16;

/// Hint for a run with plugins of a contract that this host does not implement.
const EARLIER_CONTRACT: &str = "`host rescore --plugins` takes the plugin of this host's contract, beside the rewards";

/// Scores the episodes of a run in these phases with these plugins, in the order of the record. `each` receives each
/// group as recorded and as scored. Dropped episodes are skipped.
async fn score_run(
    run: &RunReader,
    file: &RunFile,
    files: &[PluginFile],
    wanted: impl Fn(Phase) -> bool,
    printer: &Printer,
    mut each: impl FnMut(&[EpisodeRecord], &[EpisodeRecord]) -> CliResult<()>,
) -> CliResult<()> {
    plugins::check_contracts(files, EARLIER_CONTRACT)?;
    let reporter = printer.reporter();
    let (environments, places) = recorded_environments(run, file, files, OutboundMode::Live, &reporter).await?;
    let environments = &environments;
    let episodes = run.episodes()?;
    let count = episodes.ids().into_iter().filter(|id| wanted(id.phase)).count();
    let progress = printer.progress(Work::new("scoring", count as u64));
    // A group is scored in one instance, whatever its size.
    let room = &Semaphore::new((places as usize / environments.places()).max(1));
    let is_wanted = |group: &CliResult<Vec<EpisodeRecord>>| {
        group.as_ref().map_or(true, |group| group.iter().all(|record| wanted(record.id.phase)))
    };
    let mut scored = stream::iter(groups(episodes.read_all()).filter(is_wanted))
        .map(|group| async move {
            let recorded: Vec<EpisodeRecord> =
                group?.into_iter().filter(|record| record.ending != Ending::Dropped).collect();
            let _room = room.acquire().await.internal()?;
            let now = match recorded.first() {
                Some(first) => environments.of(first)?.rollout.rescore(&recorded).await,
                None => vec![],
            };
            CliResult::Ok((recorded, now))
        })
        .buffered(CONCURRENT_GROUPS);
    let mut done = 0;
    while let Some(group) = scored.next().await {
        let (recorded, now) = group?;
        each(&recorded, &now)?;
        done += recorded.len() as u64;
        progress.at(done, &ProgressFigures::default());
    }
    Ok(())
}
