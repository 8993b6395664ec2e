//! Resuming a run: its folder must hold what it began with.

use std::path::Path;

use gymkhana_config::RunFile;
use gymkhana_record::{EpisodeId, Phase};
use gymkhana_registry::{LOCK_FILE, Lock};
use gymkhana_store::RunFolder;

use crate::error::{Classify, RunError, RunResult};
use crate::seats;
use crate::state::{self, State};

/// Opens the folder of a run, which must have the same plugins.
pub(crate) fn reopen(out: &Path, lock: &Lock) -> RunResult<(RunFolder, Option<State>)> {
    let folder = RunFolder::open_for_resume(out)?;
    let state = folder.reader().state::<State>()?;
    if state.is_none() && !died_early(&folder)? {
        return Err(lost_state(&folder, "is missing, and the run has episodes or checkpoints that came after it"));
    }
    let died_early = state.is_none() && !out.join(LOCK_FILE).exists();
    if !died_early && folder.reader().lock()? != *lock {
        let out = out.display();
        return Err(RunError::user(format!(
            "the run in `{out}` was started with other plugins; its own are pinned in `{out}/gymkhana.lock`"
        )));
    }
    Ok((folder, state))
}

/// Whether the folder holds no more than a run leaves that died before it first said where it was: its first
/// evaluation, and at most the checkpoint that would have been said.
fn died_early(folder: &RunFolder) -> RunResult<bool> {
    let first = |id: &EpisodeId| id.stage == 0 && matches!(id.phase, Phase::Before | Phase::BeforeSampled);
    let checkpoints = state::checkpoints(&folder.reader().checkpoints_path())?;
    let named = checkpoints.iter().filter(|name| !name.starts_with('.'));
    Ok(folder.reader().episodes()?.ids().iter().all(first)
        && named.into_iter().all(|name| seats::is_part_of(name, &state::name(0, 0))))
}

pub(crate) fn lost_state(folder: &RunFolder, problem: &str) -> RunError {
    let out = folder.reader().path().display();
    RunError::user(format!(
        "`{out}/state.json` {problem}; restore the file, or start a new run in another --out: `host show` and `host \
         replay` still read this one"
    ))
}

/// A run goes on as it began.
pub(crate) fn same_run_file(folder: &RunFolder, file: &RunFile) -> RunResult<()> {
    if folder.reader().run_text()? == file.resolved().internal()? {
        return Ok(());
    }
    Err(another_run_file(folder))
}

/// Seats that are bound otherwise have no checkpoint to go on from: that is said before one is missed.
pub(crate) fn same_seats(folder: &RunFolder, begun: &RunFile, file: &RunFile) -> RunResult<()> {
    if begun.seats == file.seats { Ok(()) } else { Err(another_run_file(folder)) }
}

/// The run file with which a run began, if its folder still tells.
pub(crate) fn begun_as(folder: &RunFolder) -> Option<RunFile> {
    RunFile::parse(&folder.reader().run_text().ok()?, "run.toml", &[]).ok()
}

fn another_run_file(folder: &RunFolder) -> RunError {
    let out = folder.reader().path().display();
    RunError::user(format!(
        "the run in `{out}` was started with another run file or other --set values; resume it with those of \
         `{out}/run.toml`, or start a new run in another --out"
    ))
}
