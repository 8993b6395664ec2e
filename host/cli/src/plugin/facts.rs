//! Facts at the end of an environment's first task, as its oracle plays it with tools of other plugins.

use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, DEFAULT_EPISODE_BYTES, DescribedEnvironment, Episode, EpisodeData, EpisodeSeeds, ORACLE_TURNS, ToolSet,
};
use gymkhana_record::{Ending, NamedValue, Seed, TaskRef, Turn};
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
    let bound = BoundPlugin { plugin: plugin.clone(), options };
    let environment = DescribedEnvironment::describe(bound, Arc::clone(tools)).await.map_err(|error| error.message)?;
    let split = environment.splits().iter().find(|split| split.tasks != Some(0)).ok_or("it has no tasks")?;
    let task = TaskRef { split: split.name.clone(), index: 0 };
    let opened = environment.open(task, EpisodeSeeds::same(Seed(0)), DEFAULT_EPISODE_BYTES).await;
    let mut episode = opened.map_err(|failed| failed.failure.to_string())?;
    let facts = play(&mut episode).await;
    // The trial needs no answer to the end of the episode.
    let _closed = episode.close().await;
    facts
}

/// Lets the oracle play to the end of the task.
async fn play(episode: &mut Episode) -> Result<Vec<String>, String> {
    let ending = episode.play_oracle(u32::MAX).await.map_err(|failure| failure.to_string())?;
    let EpisodeData { failures, extras, turns, .. } = &episode.data;
    let unknown = turns.iter().find_map(|turn| match turn {
        Turn::Call { seat, call, .. } if !episode.data.offers(*seat, &call.name) => Some(&call.name),
        _ => None,
    });
    match (unknown, failures.first(), ending) {
        (Some(name), ..) => Err(format!("its oracle calls `{name}`, which no plugin here has")),
        (None, Some(failure), _) => Err(failure.to_string()),
        (None, None, Ending::TurnLimit) => Err(format!("its oracle reached no end in {ORACLE_TURNS} turns")),
        (None, None, _) => Ok(extras.iter().map(|fact| fact.name.clone()).collect()),
    }
}
