//! The server that plays the run's policy, where the run file names one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_policy::Policy;
use gymkhana_policy_server::{ServerPolicy, ServerSettings};

use crate::error::{Classify, RunError, RunResult};
use crate::report::Reporter;
use crate::seats::SeatPolicies;
use crate::setup::chat::chat_format;
use crate::setup::grants::secret;
use crate::setup::models::Models;
use gymkhana_config::RunFile;

/// Where weights lie for the server to load, below the run's folder.
const FOLDER: &str = "served";

/// Has the run file's server, if it names one, play the policy.
pub(crate) async fn connect(seats: &mut SeatPolicies, file: &RunFile, reporter: &Arc<dyn Reporter>) -> RunResult<()> {
    let Some(section) = &file.policy.server else { return Ok(()) };
    let key = section.key_env.as_ref().map(|env| secret(env, "policy.server.key_env")).transpose()?;
    let settings = ServerSettings {
        url: section.url.clone(),
        protocol: section.protocol,
        model: section.name.clone(),
        key,
        policy: section.request_policy(),
        update: section.update_policy(),
        requests: section.requests,
        vocabulary: usize::try_from(seats.policy().config().vocab_size).unwrap_or(0),
        context: seats.policy().context(),
    };
    let (chat, reporter) = (chat_format(seats.policy())?, reporter.clone());
    let told = Box::new(move |text: String| reporter.status(&text));
    let server = ServerPolicy::connect(settings, chat, told).await.user_error()?;
    seats.serve(Arc::new(server));
    Ok(())
}

/// Gives the server the weights with which the policy begins or goes on: whoever started it may have chosen others.
pub(crate) async fn begin(
    seats: &SeatPolicies,
    file: &RunFile,
    models: &Models,
    left_off: Option<PathBuf>,
) -> RunResult<()> {
    let Some(server) = seats.server() else { return Ok(()) };
    let Some(checkpoint) = &file.policy.checkpoint else { return Ok(()) };
    let folder = left_off.unwrap_or_else(|| models.folder(checkpoint));
    push(server, &folder, seats.policy().weight_version()).await
}

/// Gives the server the policy's weights, if they have moved, through a folder below the run's; earlier ones go.
pub(crate) async fn follow(seats: &SeatPolicies, run: &Path) -> RunResult<()> {
    let Some(server) = seats.server() else { return Ok(()) };
    let version = seats.policy().weight_version();
    if server.weight_version() == version {
        return Ok(());
    }
    let served = run.join(FOLDER);
    forget(&served)?;
    let folder = served.join(format!("{version:06}"));
    let full = format!("cannot write the weights `{}`; free space and run again with --resume", folder.display());
    seats.policy().export(&folder).await.user_context(full)?;
    push(server, &folder, version).await?;
    forget(&served)
}

async fn push(server: &ServerPolicy, folder: &Path, version: u32) -> RunResult<()> {
    // The server has another working directory.
    let folder = folder.canonicalize().user_context(format!("`{}` cannot be looked at", folder.display()))?;
    server.push(&folder, version).await.user_error()
}

/// Removes what the server has loaded, or what an earlier process has left.
fn forget(served: &Path) -> RunResult<()> {
    if served.exists() {
        let stays = format!("`{}` cannot be removed; see to whom it belongs", served.display());
        std::fs::remove_dir_all(served).user_context(stays)?;
    }
    Ok(())
}

/// Ends a run whose server has given up: whatever is played without it comes to nothing.
pub(crate) fn check(seats: &SeatPolicies) -> RunResult<()> {
    match seats.server().and_then(|server| server.gave_up()) {
        Some(problem) => Err(RunError::user(format!("{problem}; mend the server, then run again with --resume"))),
        None => Ok(()),
    }
}
