//! Snapshots of environments as bytes, which continue in another process.

use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, EpisodeSequence, EpisodeSession, LiveEpisode, NextEpisode, SavedEpisode, SessionError,
};
use gymkhana_record::{NamedValue, Seed};
use gymkhana_registry::Digest;
use gymkhana_sandbox::Plugin;
use serde::{Deserialize, Serialize};

use crate::environment::described::describe;
use crate::errors::FunctionFault;

/// Number of the format. It grows with every change that an older reader would misread.
const FORMAT: u32 = 2;

/// An environment without its plugins.
#[derive(Serialize, Deserialize)]
struct SavedEnv {
    format: u32,
    plugin: Digest,
    /// Environments inside of a wrapper with their options, from the outside in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inside: Vec<(Digest, Vec<NamedValue>)>,
    options: Vec<NamedValue>,
    sequence: EpisodeSequence,
    split: Option<String>,
    task: Option<u64>,
    live: Option<SavedLive>,
}

#[derive(Serialize, Deserialize)]
struct SavedLive {
    seed: Seed,
    episode: SavedEpisode,
}

/// The environment and its episode as bytes.
///
/// # Errors
/// If a plugin with state offers no snapshots, or fails.
pub async fn save(session: &mut EpisodeSession) -> Result<Vec<u8>, FunctionFault> {
    let live = match session.live() {
        Ok(live) => Some(SavedLive { seed: live.seed, episode: live.save().await? }),
        Err(_) => None,
    };
    let BoundPlugin { plugin, options } = session.environment().bound();
    let NextEpisode { split, task, .. } = session.defaults().clone();
    let saved = SavedEnv {
        format: FORMAT,
        plugin: plugin.digest(),
        inside: inside(plugin),
        options: options.clone(),
        sequence: session.sequence(),
        split,
        task,
        live,
    };
    serde_json::to_vec(&saved)
        .map_err(|error| FunctionFault::Internal(format!("the snapshot cannot be written: {error}")))
}

fn inside(plugin: &Plugin) -> Vec<(Digest, Vec<NamedValue>)> {
    let inner = plugin.chain().filter_map(Plugin::inner);
    inner.map(|(inner, options)| (inner.digest(), options.to_vec())).collect()
}

/// The environment of a snapshot.
///
/// # Errors
/// If the bytes are not a snapshot of this plugin and these tools, or a plugin cannot read its part.
pub async fn open(bytes: &[u8], plugin: &Plugin, tools: Vec<BoundPlugin>) -> Result<EpisodeSession, FunctionFault> {
    let wrong = |why: String| FunctionFault::Option(format!("the snapshot cannot be opened: {why}"));
    let saved: SavedEnv = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if saved.format != FORMAT {
        return Err(wrong(format!("it has format {}, and this package reads {FORMAT}", saved.format)));
    }
    if saved.plugin != plugin.digest() {
        return Err(wrong(format!("it is of plugin {}, and this is {}", saved.plugin, plugin.digest())));
    }
    if saved.inside != inside(plugin) {
        return Err(wrong("the environments inside, or their options, are others".to_owned()));
    }
    let environment = Arc::new(describe(plugin.clone(), saved.options, tools).await?);
    let live = match saved.live {
        None => None,
        Some(SavedLive { seed, episode }) => {
            let restored = LiveEpisode::restore(&environment, episode, seed).await;
            Some(restored.map_err(|error| match error {
                SessionError::OtherTools(why) => wrong(why.to_string()),
                other => other.into(),
            })?)
        }
    };
    let defaults = NextEpisode { split: saved.split, task: saved.task, seed: None };
    Ok(EpisodeSession::resume(environment, saved.sequence, defaults, live))
}
