//! Weight updates of the inference server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_policy::Policy;
use gymkhana_policy_server::{ServerPolicy, ServerSettings};

use crate::seats::SeatPolicies;
use crate::setup::chat::chat_format;
use crate::setup::models::Models;
use gymkhana_assembly::Reporter;
use gymkhana_assembly::grants::secret;
use gymkhana_assembly::{Classify, RunError, RunResult};
use gymkhana_config::RunFile;

/// Folder below the run's folder with weights for the server.
const FOLDER: &str = "served";

/// Connects the run file's inference server, if any.
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
    let report = Box::new(move |text: String| reporter.warn(&text));
    let server = ServerPolicy::connect(settings, chat, report).await.user_error()?;
    seats.serve(Arc::new(server));
    Ok(())
}

/// Pushes the policy's current weights to the server, which may have been started with others.
pub(crate) async fn begin(
    seats: &SeatPolicies,
    file: &RunFile,
    models: &Models,
    left_off: Option<PathBuf>,
) -> RunResult<()> {
    let Some(server) = seats.server() else { return Ok(()) };
    let Some(checkpoint) = &file.policy.checkpoint else { return Ok(()) };
    let folder = match left_off {
        Some(folder) => folder,
        None => models.folder(checkpoint)?.to_owned(),
    };
    push(server, &folder, seats.policy().weight_version()).await
}

/// Pushes the policy's weights if they changed, through a folder below the run's; removes earlier ones.
pub(crate) async fn follow(seats: &SeatPolicies, run: &Path) -> RunResult<()> {
    let Some(server) = seats.server() else { return Ok(()) };
    let version = seats.policy().weight_version();
    if server.weight_version() == version {
        return Ok(());
    }
    let served = run.join(FOLDER);
    remove_folder(&served)?;
    let folder = served.join(format!("{version:06}"));
    let full = format!("the weights `{}` cannot be written\nhint: free space, then use --resume", folder.display());
    seats.policy().export(&folder).await.user_context(full)?;
    push(server, &folder, version).await?;
    remove_folder(&served)
}

async fn push(server: &ServerPolicy, folder: &Path, version: u32) -> RunResult<()> {
    // The server has another working directory.
    let folder = folder.canonicalize().user_context(format!("`{}` cannot be opened", folder.display()))?;
    server.push(&folder, version).await.user_error()
}

/// Removes weights that an earlier process left in the run's folder.
pub(crate) fn remove_served(run: &Path) -> RunResult<()> {
    remove_folder(&run.join(FOLDER))
}

/// Removes weights that the server has loaded, or that an earlier process left.
fn remove_folder(served: &Path) -> RunResult<()> {
    if served.exists() {
        let stays = format!("`{}` cannot be removed\nhint: check its owner and permissions", served.display());
        std::fs::remove_dir_all(served).user_context(stays)?;
    }
    Ok(())
}

/// Ends a run whose server has failed for good.
pub(crate) fn check(seats: &SeatPolicies) -> RunResult<()> {
    match seats.server().and_then(|server| server.gave_up()) {
        Some(problem) => Err(RunError::user(problem).with_hint("fix the server, then run again with --resume")),
        None => Ok(()),
    }
}
