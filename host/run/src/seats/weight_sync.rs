//! Weight updates of the inference server: before the next request that needs the new weights, each followed by a
//! comparison with the trainer.

use std::path::Path;
use std::sync::Arc;

use gymkhana_policy_server::{Protocol, ServerError, ServerPolicy};
use gymkhana_trainer::ModelConfig;

use crate::seats::SeatPolicies;
use crate::seats::learner::ModelTrainer;
use crate::setup::chat::chat_format;
use gymkhana_config::RunFile;
use gymkhana_orchestration::Reporter;
use gymkhana_orchestration::server::{self, ModelSize};
use gymkhana_orchestration::{Classify, RunError, RunResult};

/// Folder below the run's folder with weights for the server.
const FOLDER: &str = "served";

/// Connects the run file's inference server, if any.
pub(crate) async fn connect(seats: &mut SeatPolicies, file: &RunFile, reporter: &Arc<dyn Reporter>) -> RunResult<()> {
    let (Some(section), policy) = (&file.policy.server, seats.policy()) else { return Ok(()) };
    let size = ModelSize { vocabulary: policy.vocabulary(), context: policy.policy().context() };
    let server = server::connect(section, size, chat_format(policy.files())?, reporter).await?;
    seats.serve(Arc::new(server));
    Ok(())
}

/// Rejects a vLLM server that was started with a tied model, whose output layer it does not update. A model that the
/// host cannot read, such as one from a hub, is left to the comparison after each update.
pub(crate) fn check_served(seats: &SeatPolicies, file: &RunFile) -> RunResult<()> {
    let (Some(servers), Some(section)) = (seats.server(), &file.policy.server) else { return Ok(()) };
    let is_tied = |model: &&str| {
        let config = ModelConfig::read(&Path::new(model).join("config.json"));
        section.protocol == Protocol::Vllm && config.is_ok_and(|config| config.tie_word_embeddings)
    };
    match servers.servers().filter_map(ServerPolicy::started_with).find(is_tied) {
        Some(model) => Err(RunError::user(format!(
            "the policy server at {} serves `{model}`, a model with tied embeddings, whose output layer vLLM does not \
             update\nhint: write a copy with `host export {model} DIR`, start vLLM with DIR, then run again",
            section.url
        ))),
        None => Ok(()),
    }
}

/// Failure of a weight update.
pub(crate) enum UpdateError {
    /// The server did not answer, and may do so later.
    Silent(ServerError),
    /// The run cannot go on.
    Failed(RunError),
}

impl From<RunError> for UpdateError {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

impl From<ServerError> for UpdateError {
    fn from(error: ServerError) -> Self {
        if error.may_recover() { Self::Silent(error) } else { Self::Failed(RunError::user(error)) }
    }
}

impl From<UpdateError> for RunError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Silent(error) => Self::user(error),
            UpdateError::Failed(error) => error,
        }
    }
}

/// Pushes the policy's weights if the server has others, through a folder below the run's, and checks that the server
/// computes with them. A server that trains saves them itself.
pub(crate) async fn update(seats: &SeatPolicies, run: &Path) -> Result<(), UpdateError> {
    seats.policy().update_policy().await?;
    let (Some(servers), policy) = (seats.server(), seats.policy()) else { return Ok(()) };
    servers.look_again().await;
    let version = policy.weight_version();
    if servers.has_weights(version) {
        return Ok(());
    }
    let served = run.join(FOLDER);
    remove_folder(&served)?;
    let folder = served.join(format!("{version:06}"));
    policy.export(&folder).await?;
    // The server has another working directory.
    let folder = folder.canonicalize().user_context(format!("`{}` cannot be opened", folder.display()))?;
    let text = servers.fixed_text().user_error()?;
    let expected = match &text {
        Some(text) => policy.policy().score(text.clone()).await.internal()?.log_probs,
        None => vec![],
    };
    servers.push(&folder, version, text.as_ref().map(|text| (text, &expected[..]))).await?;
    Ok(remove_folder(&served)?)
}

/// Pushes the first weights of this process, before the run's folder is written. Leaves no file in `run`: folders that
/// did not exist are removed again.
///
/// # Errors
/// If the server does not load the weights or does not compute with them.
pub(crate) async fn push_first(seats: &SeatPolicies, run: &Path) -> RunResult<()> {
    if seats.server().is_none() {
        return Ok(());
    }
    let missing: Vec<&Path> = run.ancestors().take_while(|folder| !folder.exists()).collect();
    let pushed = update(seats, run).await.map_err(RunError::from);
    let removed = remove_folder(&run.join(FOLDER));
    for folder in missing {
        // A folder that holds files of another process stays.
        if std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
    pushed.and(removed)
}

/// Compares the server with the trainer again if an attempt failed in a passing way: a server that was started again computes with
/// the weights of its start.
pub(crate) async fn check_interrupted(seats: &SeatPolicies) -> RunResult<()> {
    let (Some(servers), policy) = (seats.server(), seats.policy()) else { return Ok(()) };
    for server in servers.interrupted(policy.weight_version()) {
        match verify(policy, server).await {
            // A server that is silent again is interrupted again.
            Ok(()) | Err(UpdateError::Silent(_)) => {}
            Err(UpdateError::Failed(error)) => {
                return Err(error.prefixed("the server was silent, and may have been started again"));
            }
        }
    }
    Ok(())
}

/// Compares the server's log-probabilities of a fixed text with the trainer's.
async fn verify(policy: &ModelTrainer, server: &ServerPolicy) -> Result<(), UpdateError> {
    let Some(text) = server.fixed_text().user_error()? else { return Ok(()) };
    let expected = policy.policy().score(text.clone()).await.internal()?.log_probs;
    Ok(server.verify(&text, &expected).await.map(drop)?)
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

/// Ends a run whose server refuses its requests. Returns whether the last request to a server failed.
pub(crate) fn check(seats: &SeatPolicies) -> RunResult<bool> {
    match seats.server().and_then(|server| server.gave_up()).or_else(|| seats.policy().gave_up()) {
        Some(failure) if !failure.may_recover => {
            Err(RunError::user(failure.text).with_hint("fix the server, then run again with --resume"))
        }
        failure => Ok(failure.is_some()),
    }
}
