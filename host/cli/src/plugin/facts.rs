//! Facts at the end of an environment's first task, as its oracle plays it with tools of other plugins.

use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, DEFAULT_EPISODE_BYTES, Episode, EpisodeSeeds, EpisodeSetup, NoHooks, ORACLE_TURNS, ToolSet,
};
use gymkhana_record::{Failure, NamedValue, Seed, TaskRef};
use gymkhana_sandbox::Plugin;

/// Names of the facts.
///
/// # Errors
/// The reason why no end was reached.
pub async fn with_tools(
    plugin: &Plugin,
    options: Vec<NamedValue>,
    tools: &Arc<ToolSet>,
) -> Result<Vec<String>, String> {
    let splits = plugin.splits(&options).await.map_err(|error| error.message)?;
    let split = splits.into_iter().find(|split| split.tasks != Some(0)).ok_or("it has no tasks")?;
    let info = plugin.environment_info().await.map_err(|error| error.message)?;
    let setup = EpisodeSetup {
        environment: &BoundPlugin { plugin: plugin.clone(), options },
        tools,
        task: TaskRef { split: split.name, index: 0 },
        seeds: EpisodeSeeds { environment: Seed(0), tools: Seed(0) },
        overrides: Arc::default(),
        max_bytes: DEFAULT_EPISODE_BYTES,
    };
    let opened = Episode::open(setup, info.seats.len(), &[], &mut NoHooks).await;
    let mut episode = opened.map_err(|failed| failed.failure.to_string())?;
    let facts = play(&mut episode).await;
    // The trial needs no answer to the end of the episode.
    let _closed = episode.close().await;
    facts
}

/// Plays the oracle's turns to the end of the task.
async fn play(episode: &mut Episode) -> Result<Vec<String>, String> {
    for _ in 0..ORACLE_TURNS {
        let advice = episode.advise(&NoHooks).await.map_err(|failure: Failure| failure.to_string())?;
        if let Some(call) = episode.unknown_call(&advice) {
            return Err(format!("its oracle calls `{}`, which no plugin here has", call.name));
        }
        if episode.take_turn(&mut NoHooks, advice.into(), u32::MAX).await.is_some() {
            return match episode.data.failures.first() {
                Some(failure) => Err(failure.to_string()),
                None => Ok(episode.data.extras.iter().map(|fact| fact.name.clone()).collect()),
            };
        }
    }
    Err(format!("its oracle reached no end in {ORACLE_TURNS} turns"))
}
