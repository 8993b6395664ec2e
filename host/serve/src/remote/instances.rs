//! Operations on the plugin instances of an episode, the same at a server and at its workers.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_driver::{
    Episode, EpisodeData, EpisodeSeeds, EpisodeSetup, NoHooks, SavedPlugins, StartFailure, unsandboxed,
};
use gymkhana_orchestration::is_tools_only;
use gymkhana_record::{CallSite, EpisodeRecord, NamedValue, Seed, TaskRef};
use gymkhana_sandbox::{EnvironmentEpisode, Image, OptionalInterface};

use super::messages::FinishOrder;
use crate::catalog::{Catalog, ServedEnvironment};
use crate::config::EpisodeLimits;
use crate::error::{ErrorKind, Owner, ServeError};

/// Number of live episodes that leaves places of the sandbox for the rewards of those that end, and for descriptions of
/// environments with other options.
pub(crate) fn default_live(catalog: &Catalog, running: usize) -> usize {
    let places = catalog.sandbox().counters().places as usize;
    let reserved = catalog.spare_places(running).min(places / 2);
    ((places - reserved) / catalog.places_per_episode()).max(1)
}

/// Seeds of the plugins of an episode, as in a run.
pub(crate) fn seeds(seed: Seed) -> EpisodeSeeds {
    EpisodeSeeds { environment: seed.child("environment"), tools: seed.child("tool") }
}

/// Starts an episode.
pub(crate) async fn start(
    served: &ServedEnvironment,
    limits: &EpisodeLimits,
    task: TaskRef,
    seed: Seed,
) -> Result<Episode, StartFailure> {
    let setup = EpisodeSetup {
        environment: served.bound(),
        tools: served.tools(),
        task,
        seeds: seeds(seed),
        overrides: Arc::default(),
        max_bytes: limits.bytes(),
    };
    Episode::open(setup, served.info().seats.len(), &[], &mut NoHooks).await
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
    let snapshot = saved.open(served.bound(), served.tools()).map_err(|error| wrong(error.to_string()))?;
    Episode::restore(&snapshot, data, seeds(seed)).await.map_err(|failure| ServeError::from(&failure))
}

/// State of the plugins as JSON; `None` if a plugin offers no snapshots or fails.
pub(crate) async fn save(episode: &mut Episode) -> Option<Vec<u8>> {
    if !episode.can_be_copied() {
        return None;
    }
    let snapshot = episode.snapshot().await.ok()?;
    serde_json::to_vec(&SavedPlugins::new(&snapshot)).ok()
}

/// The environment's values for rewards and teachers.
///
/// # Errors
/// If the environment does not offer them or fails.
pub(crate) async fn privileged(
    served: &ServedEnvironment,
    episode: &mut Episode,
) -> Result<Vec<NamedValue>, ServeError> {
    let (interface, site) = (OptionalInterface::Privileged, CallSite::Privileged);
    match episode.read(&NoHooks, interface, site, EnvironmentEpisode::privileged).await {
        Some(view) => view.map_err(|failure| ServeError::from(&failure)),
        None => Err(lacks(served, "privileged view")),
    }
}

/// A picture of the state.
///
/// # Errors
/// If the environment does not offer it or fails.
pub(crate) async fn render(served: &ServedEnvironment, episode: &mut Episode) -> Result<Image, ServeError> {
    if !episode.offers(OptionalInterface::Render) {
        return Err(lacks(served, "rendering"));
    }
    let drawn = episode.environment().render().await;
    drawn.map_err(|error| ServeError::of_call(Owner::Environment, served.name(), &error))
}

fn lacks(served: &ServedEnvironment, what: &str) -> ServeError {
    ServeError::agent(ErrorKind::Unsupported, format!("{} offers no {what}", served.bound().boundary()))
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
        turn_limit: served.run_file().limits.turns,
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
    let tools = served.tools().tools().iter().map(|tool| &tool.bound.plugin);
    let mut names = unsandboxed(std::iter::once(&served.bound().plugin).chain(tools));
    names.retain(|name| !is_tools_only(name));
    names
}
