//! Resuming a run: the folder must match the run file, except for more steps, and the plugins.

mod differences;
pub(crate) mod growth;
pub(crate) mod taken;

use std::path::Path;

use gymkhana_config::RunFile;
use gymkhana_record::{EpisodeId, Phase};
use gymkhana_registry::{LOCK_FILE, Lock};
use gymkhana_store::{RunFolder, RunReader};

use crate::agreement;
use crate::checkpoint_name::CheckpointName;
use crate::seats;
use crate::state::{self, State};
use gymkhana_orchestration::{Classify, RunError, RunResult};

/// Opens the folder of a run with the same plugins.
pub(crate) fn reopen(out: &Path, lock: &Lock) -> RunResult<(RunFolder, Option<State>)> {
    let folder = RunFolder::open_for_resume(out)?;
    folder.reader().run_text()?;
    let state = folder.reader().state::<State>()?;
    if state.is_none() && !died_early(folder.reader())? {
        return Err(lost_state(&folder, "is missing, although the run has later episodes or checkpoints"));
    }
    let died_early = state.is_none() && !out.join(LOCK_FILE).exists();
    if !died_early && folder.reader().lock()? != *lock {
        let out = out.display();
        return Err(RunError::user(format!(
            "the run in `{out}` was started with other plugins\nhint: leave out --plugins to use those of \
             `{out}/gymkhana.lock`"
        )));
    }
    // A run file that this host cannot parse differs from the given one, which is reported later.
    if let Some((state, begun)) = state.as_ref().zip(begun_as(&folder)) {
        agreement::position(&folder, state, &begun.stages)?;
    }
    Ok((folder, state))
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

pub(crate) fn lost_state(folder: &RunFolder, problem: &str) -> RunError {
    let out = folder.reader().path().display();
    RunError::user(format!(
        "`{out}/state.json` {problem}\nhint: restore the file, or start a new run in another --out; `host show` and \
         `host replay` still read this one"
    ))
}

/// Rejects a run file that differs from the one at the start of the run in more than stages that take more steps.
pub(crate) fn same_run_file(folder: &RunFolder, state: Option<&State>, file: &RunFile) -> RunResult<()> {
    // The folder's run file has its own digest, which this verifies.
    folder.reader().run_text()?;
    let begun = begun_as(folder).ok_or_else(|| lost_run_file(folder))?;
    let grown = growth::with_steps_of(begun.clone(), &file.stages);
    if grown.resolved().internal()? != file.resolved().internal()? {
        return Err(another_run_file(folder, &begun, file, state, None));
    }
    match growth::refusal(&begun.stages, &file.stages, state) {
        Some(reason) => Err(another_run_file(folder, &begun, file, state, Some(reason))),
        None => Ok(()),
    }
}

/// Rejects changed seats early, before a missing checkpoint of a seat is reported.
pub(crate) fn same_seats(folder: &RunFolder, begun: &RunFile, file: &RunFile, state: Option<&State>) -> RunResult<()> {
    if begun.seats == file.seats { Ok(()) } else { Err(another_run_file(folder, begun, file, state, None)) }
}

/// The run file at the start of the run; `None` if it cannot be read.
pub(crate) fn begun_as(folder: &RunFolder) -> Option<RunFile> {
    RunFile::parse(&folder.reader().run_text().ok()?, "run.toml", &[]).ok()
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
    state: Option<&State>,
    reason: Option<&str>,
) -> RunError {
    let out = folder.reader().path().display();
    let differences = differences::describe(begun, file).unwrap_or_default();
    let reason = reason.map(|reason| format!(", but {reason}")).unwrap_or_default();
    let from = state.map_or(String::new(), |state| {
        format!(" with `--set policy.checkpoint={out}/checkpoints/{}`", state.checkpoint.name)
    });
    RunError::user(format!(
        "the run in `{out}` was started with another run file or other --set values: {differences}{reason}\nhint: \
         resume with the settings of `{out}/run.toml`, of which only the steps of a stage may grow, or start a new run \
         in another --out{from}"
    ))
}
