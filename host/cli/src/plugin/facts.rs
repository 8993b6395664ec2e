//! Facts at the end of an environment's first task, as its oracle plays it with tools of other plugins.

use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, DEFAULT_EPISODE_BYTES, Episode, EpisodeSeeds, EpisodeSetup, NoHooks, Reply, StartFailure, ToolSet,
};
use gymkhana_record::{Call, Failure, NamedValue, Seed, TaskRef, WrittenCall};
use gymkhana_sandbox::{Advice, Plugin};

/// Maximum number of the oracle's turns: those that the conformance suite allows.
const MAX_TURNS: u32 = 300;

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
    let started = Episode::start(setup, &NoHooks).await.map_err(|StartFailure { failure, .. }| failure.to_string());
    let mut episode = started?;
    let facts = match episode.offer(info.seats.len() as u32, &[]) {
        Ok(()) => play(&mut episode).await,
        Err(failure) => Err(failure.to_string()),
    };
    // The episode is over for this trial, whatever its plugins say to that.
    let _closed = episode.close().await;
    facts
}

/// Plays the oracle's turns to the end of the task.
async fn play(episode: &mut Episode) -> Result<Vec<String>, String> {
    episode.observe_opening(&mut NoHooks);
    for _ in 0..MAX_TURNS {
        let advice = episode.advise(&NoHooks).await.map_err(|failure: Failure| failure.to_string())?;
        let reply = match advice {
            Advice::Message(message) => Reply { thoughts: None, message, calls: vec![] },
            Advice::Calls(calls) => {
                let functions = episode.data.functions(episode.data.seat);
                let is_known = |name: &str| functions.iter().any(|function| function.name == name);
                if let Some(call) = calls.iter().find(|call| !is_known(&call.name)) {
                    return Err(format!("its oracle calls `{}`, which no plugin here has", call.name));
                }
                let written = |Call { name, arguments, .. }| WrittenCall::Sound { name, arguments };
                Reply { thoughts: None, message: String::new(), calls: calls.into_iter().map(written).collect() }
            }
        };
        if episode.take_turn(&mut NoHooks, reply, u32::MAX).await.is_some() {
            return match episode.data.failures.first() {
                Some(failure) => Err(failure.to_string()),
                None => Ok(episode.data.extras.iter().map(|fact| fact.name.clone()).collect()),
            };
        }
    }
    Err(format!("its oracle reached no end in {MAX_TURNS} turns"))
}
