//! Construction of a rollout from a run file, shared by runs, evaluations, replays and rescoring.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::RunFile;
use gymkhana_registry::Kind;
use gymkhana_rollout::{AgentHarness, PluginSet, RewardSum, Rollout};
use gymkhana_store::RunReader;

use crate::chat::read_chat_files;
use crate::error::{Classify, RunError, RunResult};
use crate::grants::{AssetFiles, OutboundMode};
use crate::plugins::{self, PluginFile};
use crate::report::Reporter;
use crate::rewards;
use crate::tools_only::{is_tools_only, tools_only};

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

/// The rollout with the agent program of the run file, if it has one. Starts the gateway.
///
/// # Errors
/// If the program does not exist, or the gateway cannot start.
pub fn with_agent(rollout: Rollout, file: &RunFile) -> RunResult<Rollout> {
    let Some(agent) = &file.agent else { return Ok(rollout) };
    let harness = AgentHarness::start(agent.settings(&file.limits.stop)).user_error()?;
    Ok(rollout.with_agent(harness))
}

/// Rejects a run whose plugins an agent program cannot play: it plays one seat, calls tools of the run by MCP alone, and
/// its file must exist.
///
/// # Errors
/// The first problem.
pub fn check_agent(file: &RunFile, set: &PluginSet) -> RunResult<()> {
    let Some(agent) = &file.agent else { return Ok(()) };
    let environment = set.environment().plugin.name();
    if set.seats() > 1 {
        let message = format!("[agent] plays one seat, and environment `{environment}` has {}", set.seats());
        return Err(RunError::user(message).with_hint("remove [agent], or choose another environment"));
    }
    if let Some(tool) = set.tool_names().next().filter(|_| !agent.mcp) {
        let message = format!("[agent] cannot call tools of the run, such as `{tool}`: the program has its own");
        let hint = "set agent.mcp = true to offer them by MCP, or remove the tools from --plugins";
        return Err(RunError::user(message).with_hint(hint));
    }
    match agent.command.first() {
        Some(program) if !exists(program) => {
            let message = format!("agent.command: there is no program `{program}`");
            Err(RunError::user(message).with_hint("name a file, or a program of PATH"))
        }
        _ => Ok(()),
    }
}

/// Whether a program is a file, or in a folder of PATH.
fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(program));
    if program.contains('/') { std::path::Path::new(program).is_file() } else { candidates.any(|file| file.is_file()) }
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

/// Rejects a run with code that neither a component nor this program holds. All its episodes have the same plugins.
fn check_sandboxed(run: &RunReader) -> RunResult<()> {
    let episodes = run.episodes()?;
    let Some(first) = episodes.read_all().next().transpose()? else { return Ok(()) };
    let names: Vec<&str> = first.unsandboxed.iter().map(String::as_str).filter(|name| !is_tools_only(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join("`, `");
    let error = RunError::user(format!("the episodes cannot be played again: `{names}` ran without a sandbox"));
    Err(error.with_hint("build the component with `gymkhana plugin build`, and play with it"))
}
