//! Snapshots of environments as bytes, which continue in another process.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_driver::{BoundPlugin, Episode, SavedEpisode};
use gymkhana_record::{NamedValue, Seed, TaskRef};
use gymkhana_registry::Digest;
use gymkhana_sandbox::Plugin;
use serde::{Deserialize, Serialize};

use crate::environment::episode::{Live, Play, check_copies, seeds};
use crate::environment::spec::Spec;
use crate::environment::task::Sequence;
use crate::errors::Fault;

/// Number of the format. It grows with every change that an older reader would misread.
const FORMAT: u32 = 1;

/// An environment without its plugins.
#[derive(Serialize, Deserialize)]
struct SavedEnv {
    format: u32,
    plugin: Digest,
    /// Environments inside of a wrapper with their options, from the outside in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inside: Vec<(Digest, Vec<NamedValue>)>,
    options: Vec<NamedValue>,
    sequence: Sequence,
    split: Option<String>,
    task: Option<u64>,
    live: Option<SavedLive>,
}

#[derive(Serialize, Deserialize)]
struct SavedLive {
    seed: Seed,
    task: TaskRef,
    episode: SavedEpisode,
}

/// The environment and its episode as bytes.
///
/// # Errors
/// If a plugin with state offers no snapshots, or fails.
pub async fn save(play: &mut Play) -> Result<Vec<u8>, Fault> {
    let live = match play.live.as_deref_mut() {
        None => None,
        Some(Live { episode, seed, task, .. }) => {
            check_copies(episode)?;
            let snapshot = episode.snapshot().await?;
            let episode = SavedEpisode::new(&snapshot, episode.data.clone());
            Some(SavedLive { seed: *seed, task: task.clone(), episode })
        }
    };
    let BoundPlugin { plugin, options } = &play.spec.environment;
    let saved = SavedEnv {
        format: FORMAT,
        plugin: plugin.digest(),
        inside: inside(plugin),
        options: options.clone(),
        sequence: play.sequence,
        split: play.split.clone(),
        task: play.task,
        live,
    };
    serde_json::to_vec(&saved).map_err(|error| Fault::Internal(format!("the snapshot cannot be written: {error}")))
}

fn inside(plugin: &Plugin) -> Vec<(Digest, Vec<NamedValue>)> {
    let inner = plugin.chain().filter_map(Plugin::inner);
    inner.map(|(inner, options)| (inner.digest(), options.to_vec())).collect()
}

/// The environment of a snapshot.
///
/// # Errors
/// If the bytes are no snapshot of this plugin and these tools, or a plugin cannot read its part.
pub async fn open(bytes: &[u8], plugin: &Plugin, tools: Vec<BoundPlugin>) -> Result<Play, Fault> {
    let wrong = |why: String| Fault::Option(format!("the snapshot cannot be opened: {why}"));
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
    let spec = Arc::new(Spec::new(plugin.clone(), saved.options, tools).await?);
    let live = match saved.live {
        None => None,
        Some(SavedLive { seed, task, episode }) => {
            let opened = episode.open(&spec.environment, &spec.tools).map_err(|error| wrong(error.to_string()))?;
            let episode = Episode::restore(&opened.0, opened.1, seeds(seed)).await?;
            Some(Box::new(Live { episode, seed, task, begun: Instant::now(), closing: None }))
        }
    };
    Ok(Play { spec, sequence: saved.sequence, split: saved.split, task: saved.task, live })
}
