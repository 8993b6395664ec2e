//! The server that plays the run's policy, where the run file names one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_rollout::Policy;
use gymkhana_server_policy::{ServerPolicy, ServerSettings};

use super::cast::Cast;
use super::chat::chat_format;
use crate::error::{Blame, CliError, CliResult};
use crate::models::Models;
use crate::printer::Printer;
use crate::runfile::RunFile;
use crate::world::secret;

/// Where weights lie for the server to load, below the run's folder.
const FOLDER: &str = "served";

/// Has the run file's server, if it names one, play the policy.
pub(super) async fn connect(cast: &mut Cast, file: &RunFile, printer: &Printer) -> CliResult<()> {
    let Some(section) = &file.policy.server else { return Ok(()) };
    let key = section.key_env.as_ref().map(|env| secret(env, "policy.server.key_env")).transpose()?;
    let settings = ServerSettings {
        url: section.url.clone(),
        protocol: section.protocol,
        model: section.name.clone(),
        key,
        patience: section.patience(),
        update: section.update_patience(),
        requests: section.requests,
        vocabulary: usize::try_from(cast.policy().config().vocab_size).unwrap_or(0),
        context: cast.policy().context(),
    };
    let (chat, printer) = (chat_format(cast.policy())?, printer.clone());
    let told = Box::new(move |text| printer.talk(text));
    let server = ServerPolicy::connect(settings, chat, told).await.users()?;
    cast.serve(Arc::new(server));
    Ok(())
}

/// Gives the server the weights with which the policy begins or goes on: whoever started it may have chosen others.
pub(super) async fn begin(cast: &Cast, file: &RunFile, models: &Models, left_off: Option<PathBuf>) -> CliResult<()> {
    let Some(server) = cast.server() else { return Ok(()) };
    let Some(checkpoint) = &file.policy.checkpoint else { return Ok(()) };
    let folder = left_off.unwrap_or_else(|| models.folder(checkpoint));
    push(server, &folder, cast.policy().weight_version()).await
}

/// Gives the server the policy's weights, if they have moved, through a folder below the run's; earlier ones go.
pub(super) async fn follow(cast: &Cast, run: &Path) -> CliResult<()> {
    let Some(server) = cast.server() else { return Ok(()) };
    let version = cast.policy().weight_version();
    if server.weight_version() == version {
        return Ok(());
    }
    let served = run.join(FOLDER);
    forget(&served)?;
    let folder = served.join(format!("{version:06}"));
    let full = format!("cannot write the weights `{}`; free space and run again with --resume", folder.display());
    cast.policy().export(&folder).await.users_as(full)?;
    push(server, &folder, version).await?;
    forget(&served)
}

async fn push(server: &ServerPolicy, folder: &Path, version: u32) -> CliResult<()> {
    // The server has another working directory.
    let folder = folder.canonicalize().users_as(format!("`{}` cannot be looked at", folder.display()))?;
    server.push(&folder, version).await.users()
}

/// Removes what the server has loaded, or what an earlier process has left.
fn forget(served: &Path) -> CliResult<()> {
    if served.exists() {
        let stays = format!("`{}` cannot be removed; see to whom it belongs", served.display());
        std::fs::remove_dir_all(served).users_as(stays)?;
    }
    Ok(())
}

/// Ends a run whose server has given up: whatever is played without it comes to nothing.
pub(super) fn check(cast: &Cast) -> CliResult<()> {
    match cast.server().and_then(|server| server.gave_up()) {
        Some(problem) => Err(CliError::mistake(format!("{problem}; mend the server, then run again with --resume"))),
        None => Ok(()),
    }
}
