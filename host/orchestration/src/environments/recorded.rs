//! The environments of a run's recorded episodes, for replay and rescoring.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::RunFile;
use gymkhana_registry::{Kind, PluginFile};
use gymkhana_store::RunReader;

use super::{Environments, bind};
use crate::chat::read_chat_files;
use crate::error::{Classify, RunError, RunResult};
use crate::grants::{AssetFiles, OutboundMode};
use crate::plugins;
use crate::report::Reporter;
use crate::rollout;
use crate::tools_only::{is_tools_only, tools_only};

/// The environments of the recorded episodes of `run` with these plugins, and the capacity of their sandbox.
///
/// # Errors
/// If the run's folder lacks a file, the plugins do not fit its run file, or a plugin ran without a sandbox.
pub async fn recorded_environments(
    run: &RunReader,
    file: &RunFile,
    plugins: &[PluginFile],
    mode: OutboundMode,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<(Environments, u32)> {
    check_sandboxed(run)?;
    let assets = AssetFiles::recorded(&file.rules, run)?;
    let sandbox = plugins::sandbox(&file.rules.sandbox, reporter)?;
    let mut loaded = plugins::load(&file.rules, &file.wrappers(), &sandbox, plugins, &assets, mode)?;
    if !loaded.iter().any(|plugin| plugin.manifest().kinds.contains(&Kind::Environment)) {
        // Served tool sessions: their environment is the host's own.
        loaded.push(tools_only()?);
    }
    let bound = bind(file, loaded).await?;
    let files = read_chat_files(run.path())?;
    let opened = Environments::build(bound, |settings, set, rewards| {
        rollout::of_run(file, &settings.rules, set, ChatFormat::new(&files).user_error()?, rewards, None)
    })?;
    Ok((opened, sandbox.counters().places))
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
