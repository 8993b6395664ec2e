//! Operations on the plugin instances of an episode, the same at a server and at its workers.

use std::time::Instant;

use gymkhana_driver::{Episode, EpisodeData, EpisodeSeeds, NoHooks, SavedPlugins};
use gymkhana_orchestration::is_tools_only;
use gymkhana_record::{EpisodeRecord, Seed};

use super::messages::FinishOrder;
use crate::catalog::{Catalog, ServedEnvironment};
use crate::error::{ErrorKind, ServeError};

/// Number of live episodes that leaves places of the sandbox for the rewards of those that end, and for descriptions of
/// environments with other options.
pub(crate) fn default_live(catalog: &Catalog, running: usize) -> usize {
    let places = catalog.sandbox().counters().places as usize;
    let reserved = catalog.spare_places(running).min(places / 2);
    ((places - reserved) / catalog.places_per_episode()).max(1)
}

/// Continues an episode.
///
/// # Errors
/// If a plugin cannot read its state.
pub(crate) async fn restore(
    served: &ServedEnvironment,
    data: EpisodeData,
    plugins: &[u8],
    seed: Seed,
) -> Result<Episode, ServeError> {
    let wrong = |why: String| ServeError::host(ErrorKind::Failed, format!("the session cannot continue: {why}"));
    let saved: SavedPlugins = serde_json::from_slice(plugins).map_err(|error| wrong(error.to_string()))?;
    let snapshot =
        saved.open(served.described().bound(), served.described().tools()).map_err(|error| wrong(error.to_string()))?;
    Episode::restore(&snapshot, data, EpisodeSeeds::of(seed)).await.map_err(|failure| ServeError::from(&failure))
}

/// State of the plugins as JSON; `None` if a plugin offers no snapshots or fails.
pub(crate) async fn save(episode: &mut Episode) -> Option<Vec<u8>> {
    if !episode.can_be_copied() {
        return None;
    }
    let snapshot = episode.snapshot().await.ok()?;
    serde_json::to_vec(&SavedPlugins::new(&snapshot)).ok()
}

/// Reads the final views, scores the episode if the order says so, and writes the record.
pub(crate) async fn finish(
    served: &ServedEnvironment,
    episode: Episode,
    begun: Instant,
    order: FinishOrder,
) -> Box<EpisodeRecord> {
    let FinishOrder { record, task, seed, ending, scored, age_ms: _ } = order;
    let record = EpisodeRecord {
        turn_limit: served.rules().limits.turns,
        unsandboxed: without_sandbox(served),
        ..EpisodeRecord::new(record, task, seed, ending)
    };
    let record = episode.finish(&NoHooks, ending, begun, record).await;
    if !scored {
        return Box::new(record);
    }
    let scored = served.rollout().rescore(std::slice::from_ref(&record)).await;
    Box::new(scored.into_iter().next().unwrap_or(record))
}

/// Full names of the plugins that ran without a sandbox. The environment of tool sessions is the host's own code.
pub(crate) fn without_sandbox(served: &ServedEnvironment) -> Vec<String> {
    let mut names = served.described().unsandboxed();
    names.retain(|name| !is_tools_only(name));
    names
}
