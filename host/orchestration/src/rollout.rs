//! Construction of a rollout from a run file, shared by runs, evaluations, replays and rescoring.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::RunFile;
use gymkhana_registry::Kind;
use gymkhana_rollout::{PluginSet, RewardSum, Rollout};
use gymkhana_store::RunReader;

use crate::chat::read_chat_files;
use crate::error::{Classify, RunError, RunResult};
use crate::grants::{AssetFiles, OutboundMode};
use crate::plugins::{self, PluginFile};
use crate::report::Reporter;
use crate::rewards;
use crate::tools_only::tools_only;

/// A rollout under the run file's rules. `places` orders episodes for deterministic generation, see
/// [`Rollout::with_deterministic_places`].
///
/// # Errors
/// If a tool or the probe collides with the context strategy.
pub fn rollout(
    file: &RunFile,
    set: PluginSet,
    chat: ChatFormat,
    rewards: RewardSum,
    places: Option<usize>,
) -> RunResult<Rollout> {
    let chat = match file.policy.tool_format.format() {
        Some(format) => chat.with_tool_format(format),
        None => chat,
    };
    let limits = (&file.limits).into();
    let rollout = Rollout::new(set, chat, limits, rewards, file.policy.system.clone(), file.failures.retries);
    let rollout = rollout.with_stop_texts(&file.limits.stop);
    let rollout =
        rollout.with_context(file.context.clone()).user_error()?.with_probe(file.probe.clone()).user_error()?;
    Ok(match places {
        Some(places) => rollout.with_deterministic_places(places),
        None => rollout,
    })
}

/// A rollout over the recorded episodes of `run` with these plugins, and the capacity of its sandbox.
///
/// # Errors
/// If the run's folder lacks a file, the plugins do not fit its run file, or a plugin ran without a sandbox.
pub async fn recorded_rollout(
    run: &RunReader,
    file: &RunFile,
    plugins: &[PluginFile],
    mode: OutboundMode,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<(Rollout, u32)> {
    check_sandboxed(run)?;
    let assets = AssetFiles::recorded(file, run)?;
    let sandbox = plugins::sandbox(file, reporter)?;
    let mut loaded = plugins::load(file, &sandbox, plugins, &assets, mode)?;
    if !loaded.iter().any(|plugin| plugin.manifest().kinds.contains(&Kind::Environment)) {
        // Served tool sessions: their environment is the host's own.
        loaded.push(tools_only()?);
    }
    let set = plugins::bind_all(file, loaded).await?;
    let rewards = rewards::reward_sum(file, &set)?;
    let chat = ChatFormat::new(&read_chat_files(run.path())?).user_error()?;
    Ok((rollout(file, set, chat, rewards, None)?, sandbox.counters().places))
}

/// Rejects a run with code that no component holds. All its episodes have the same plugins.
fn check_sandboxed(run: &RunReader) -> RunResult<()> {
    let episodes = run.episodes()?;
    let Some(first) = episodes.read_all().next().transpose()? else { return Ok(()) };
    if first.unsandboxed.is_empty() {
        return Ok(());
    }
    let names = first.unsandboxed.join("`, `");
    let error = RunError::user(format!("the episodes cannot be played again: `{names}` ran without a sandbox"));
    Err(error.with_hint("build the component with `gymkhana plugin build`, and play with it"))
}
