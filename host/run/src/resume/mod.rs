//! Resuming a run: the folder must match the run file, except for more steps, and the plugins.

mod differences;
pub(crate) mod growth;
pub(crate) mod taken;

use gymkhana_config::{RunFile, TrainerSection};
use gymkhana_record::{EpisodeId, Phase};
use gymkhana_registry::{LOCK_FILE, Lock};
use gymkhana_store::{RunFolder, RunReader};

use crate::agreement::lost_state;
use crate::checkpoint_name::CheckpointName;
use crate::seats;
use crate::state::{self, TrainingState};
use gymkhana_orchestration::{Classify, RunError, RunResult, run_file_of};

/// Rejects a missing state, unless the run died before its first one.
pub(crate) fn state_is_there(folder: &RunFolder, state: Option<&TrainingState>) -> RunResult<()> {
    if state.is_some() || died_early(folder.reader())? {
        return Ok(());
    }
    Err(lost_state(folder, "is missing, although the run has later episodes or checkpoints"))
}

/// Rejects other plugins than those of the run, which a run that died before its first state may not have stored.
pub(crate) fn same_plugins(folder: &RunFolder, state: Option<&TrainingState>, lock: &Lock) -> RunResult<()> {
    let out = folder.reader().path();
    let died_early = state.is_none() && !out.join(LOCK_FILE).exists();
    if died_early || folder.reader().lock()? == *lock {
        return Ok(());
    }
    let out = out.display();
    Err(RunError::user(format!(
        "the run in `{out}` was started with other plugins\nhint: leave out --plugins to use those of \
         `{out}/gymkhana.lock`"
    )))
}

/// Reports whether the run died before its first state: the folder holds at most the first evaluation and the first
/// checkpoint.
fn died_early(run: &RunReader) -> RunResult<bool> {
    let first = |id: &EpisodeId| id.stage == 0 && matches!(id.phase, Phase::Before | Phase::BeforeSampled);
    let checkpoints = state::checkpoints(&run.checkpoints_path())?;
    let named = checkpoints.iter().filter(|name| !name.starts_with('.'));
    let start = CheckpointName { stage: 0, step: 0 }.to_string();
    Ok(run.episodes()?.ids().iter().all(first) && named.into_iter().all(|name| seats::is_part_of(name, &start)))
}

/// Rejects a run file that differs from the one at the start of the run in more than may change.
pub(crate) fn same_run_file(folder: &RunFolder, state: Option<&TrainingState>, file: &RunFile) -> RunResult<()> {
    // The folder's run file has its own digest, which this verifies.
    folder.reader().run_text()?;
    let begun = begun_as(folder).ok_or_else(|| lost_run_file(folder))?;
    let grown = growth::with_changes_of(begun.clone(), file);
    if grown.resolved().internal()? != file.resolved().internal()? {
        return Err(another_run_file(folder, &begun, file, state, None));
    }
    match growth::refusal(&begun.stages, &file.stages, state) {
        Some(reason) => Err(another_run_file(folder, &begun, file, state, Some(reason))),
        None => Ok(()),
    }
}

/// Rejects changed seats early, before a missing checkpoint of a seat is reported.
pub(crate) fn same_seats(
    folder: &RunFolder,
    begun: &RunFile,
    file: &RunFile,
    state: Option<&TrainingState>,
) -> RunResult<()> {
    if begun.rules.seats == file.rules.seats { Ok(()) } else { Err(another_run_file(folder, begun, file, state, None)) }
}

/// The run file at the start of the run; `None` if it cannot be read.
pub(crate) fn begun_as(folder: &RunFolder) -> Option<RunFile> {
    run_file_of(folder.reader(), &[]).ok()
}

fn lost_run_file(folder: &RunFolder) -> RunError {
    let out = folder.reader().path().display();
    RunError::user(format!(
        "this host does not read `{out}/run.toml`\nhint: resume with the host that started the run, or start a new run \
         in another --out"
    ))
}

/// Error that names each key that differs, and the way to train on from the last checkpoint.
fn another_run_file(
    folder: &RunFolder,
    begun: &RunFile,
    file: &RunFile,
    state: Option<&TrainingState>,
    reason: Option<&str>,
) -> RunError {
    let out = folder.reader().path().display();
    let differences = differences::describe(begun, file).unwrap_or_default();
    let reason = reason.map(|reason| format!(", but {reason}")).unwrap_or_default();
    let from = state.map_or(String::new(), |state| {
        format!(" with `--set policy.checkpoint={out}/checkpoints/{}`", state.checkpoint.name)
    });
    let processes = match begun.trainer {
        Some(TrainerSection::Torch(_)) => " and the processes of PyTorch change",
        _ => "",
    };
    RunError::user(format!(
        "the run in `{out}` was started with another run file or other --set values: {differences}{reason}\nhint: \
         resume with the settings of `{out}/run.toml`, of which only the steps of a stage may grow{processes}, \
         or start a new run \
         in another --out{from}"
    ))
}
