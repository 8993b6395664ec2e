//! The environments of a run at a worker, from the files on the bus.

use std::path::Path;
use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::RunFile;
use gymkhana_orchestration::chat::read_chat_files;
use gymkhana_orchestration::environments::{self, Environments};
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult, plugins};
use gymkhana_store::RunReader;

use crate::description::{Description, SeatKind};

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
    allow_programs: bool,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Opened> {
    let run = RunReader::open(folder)?;
    let mut file = RunFile::parse(&run.run_text()?, "the run's run.toml", &[]).user_error()?;
    if let Some(program) = program(&file).filter(|_| !allow_programs) {
        return Err(RunError::user(format!("the run starts a program on its workers: {program}"))
            .with_hint("start the worker with --allow-programs if you trust all who may write to the bus"));
    }
    let files = plugins::recorded_files(&run)?;
    let assets = AssetFiles::recorded(&file, &run)?;
    let sandbox = plugins::sandbox(&file, reporter)?;
    let loaded = plugins::load(&file, &sandbox, &files, &assets, OutboundMode::Live)?;
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
    let environments = Environments::open(bound, || ChatFormat::new(&chat).user_error(), description.places)?;
    let most_episodes = sandbox.counters().places as usize / environments.places();
    Ok(Opened { environments, most_episodes })
}

/// The first program that the run starts where its episodes are played.
fn program(file: &RunFile) -> Option<String> {
    let agent = file.agent.as_ref().map(|agent| format!("agent.command is {:?}", agent.command));
    let mut servers = file.tools.iter().filter_map(|(name, tool)| {
        let command = &tool.mcp.as_ref()?.command;
        (!command.is_empty()).then(|| format!("tools.{name}.mcp.command is {command:?}"))
    });
    agent.or_else(|| servers.next())
}
