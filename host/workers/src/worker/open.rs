//! The files of a run or a server at a worker, and the environments of a run.

use std::path::Path;
use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::RunFile;
use gymkhana_orchestration::chat::read_chat_files;
use gymkhana_orchestration::environments::{self, Environments};
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult, plugins, run_file_of};
use gymkhana_store::RunReader;
use tempfile::TempDir;

use crate::bus::{Bus, Names, RunKey};
use crate::description::{Description, SeatKind};
use crate::files;
use crate::worker::WorkerSettings;

/// Environments that play, and the number of groups of one episode that the sandbox holds.
pub(crate) struct Opened {
    pub environments: Environments,
    pub most_episodes: usize,
}

/// Opens the environments of the run whose files are in `folder`.
///
/// # Errors
/// If the run starts programs and may not, or a file does not fit the others.
pub(crate) async fn open(
    folder: &Path,
    description: &Description,
    settings: &WorkerSettings,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Opened> {
    let run = RunReader::open(folder)?;
    let mut file = run_file_of(&run, &[])?;
    refuse_programs(&file, settings.allow_programs)?;
    let files = plugins::recorded_files(&run)?;
    let assets = AssetFiles::recorded(&file.rules, &run)?;
    let sandbox = plugins::sandbox(&file.rules.sandbox, reporter)?;
    let loaded = plugins::load(&file.rules, &file.wrappers(), &sandbox, &files, &assets, OutboundMode::Live)?;
    let bound = environments::bind(&file, loaded).await?;
    let contexts = description.seats.iter().filter_map(|seat| match seat {
        SeatKind::Model { context, .. } => Some(*context),
        SeatKind::Oracle => None,
    });
    if let Some(context) = contexts.min() {
        file.fit_model(context).user_error()?;
    }
    let bound = environments::with_file(bound, &file);
    let chat = read_chat_files(folder)?;
    let environments = Environments::open(
        &file,
        bound,
        || ChatFormat::new(&chat).user_error(),
        description.places,
        Some(settings.agents),
    )?;
    let most_episodes = sandbox.counters().places as usize / environments.places();
    Ok(Opened { environments, most_episodes })
}

/// Fetches the files of a run or a server into a temporary folder.
///
/// # Errors
/// If a file is missing or altered, or the disk is full.
pub(crate) async fn fetched(
    bus: &Bus,
    names: &Names,
    run: &RunKey,
    description: &Description,
    cache: &Path,
) -> RunResult<TempDir> {
    let folder = tempfile::Builder::new().prefix("gymkhana-worker-").tempdir();
    let full = "the folder of temporary files cannot be written\nhint: free space there, or choose another TMPDIR";
    let folder = folder.user_context(full)?;
    let bucket = bus.jetstream.get_object_store(names.files_bucket()).await;
    let bucket = bucket.user_context(format!("run {run} has no files on the bus\nhint: restart the run"))?;
    files::fetch(&bucket, &description.files, cache, folder.path()).await?;
    Ok(folder)
}

/// Checks that the run starts no program on this machine, unless it may.
///
/// # Errors
/// If it does.
pub(crate) fn refuse_programs(file: &RunFile, allow_programs: bool) -> RunResult<()> {
    match program(file).filter(|_| !allow_programs) {
        None => Ok(()),
        Some(program) => Err(RunError::user(format!("the run starts a program on its workers: {program}"))
            .with_hint("start the worker with --allow-programs if you trust all who may write to the bus")),
    }
}

/// The first program that the run starts where its episodes are played.
fn program(file: &RunFile) -> Option<String> {
    let agent = file.agent.as_ref().map(|agent| format!("agent.command is {:?}", agent.command));
    let mut servers = file.rules.plugins.iter().filter_map(|(name, tool)| {
        let command = &tool.mcp.as_ref()?.command;
        (!command.is_empty()).then(|| format!("plugins.{name}.mcp.command is {command:?}"))
    });
    agent.or_else(|| servers.next())
}
