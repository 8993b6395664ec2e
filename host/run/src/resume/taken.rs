//! Output directories that hold a run: their refusal, and the replacement of a run without training steps.

use std::path::Path;
use std::time::Duration;

use gymkhana_store::{RunFolder, RunReader, StoreError};

use crate::resume::died_early;
use crate::seats::weight_sync::remove_served;
use crate::state::TrainingState;
use gymkhana_config::Recorder;
use gymkhana_orchestration::chat::remove_chat_files;
use gymkhana_orchestration::{RunError, RunResult, recorder};

/// Rejects an output directory that a new run cannot use.
pub(crate) fn check(out: &Path, overwrite: bool) -> RunResult<()> {
    match RunFolder::check_free(out) {
        Err(StoreError::HoldsRun(_)) if overwrite => check_replaceable(&RunFolder::open_for_resume(out)?),
        Err(StoreError::HoldsRun(_)) => Err(taken(&RunReader::open(out)?)),
        other => Ok(other?),
    }
}

/// Creates the folder of a new run; with `overwrite`, removes the files of a run without training steps first.
pub(crate) fn create(out: &Path, overwrite: bool, run_text: &str) -> RunResult<RunFolder> {
    if !overwrite || RunReader::open(out).is_err() {
        return Ok(RunFolder::create(out, run_text)?);
    }
    let folder = RunFolder::open_for_resume(out)?;
    // Repeated under the lock, because the run may have been resumed in between.
    check_replaceable(&folder)?;
    remove_chat_files(out)?;
    remove_served(out)?;
    Ok(folder.clear(run_text)?)
}

fn check_replaceable(folder: &RunFolder) -> RunResult<()> {
    let run = folder.reader();
    check_run(run)?;
    if made_no_step(run)? {
        return Ok(());
    }
    Err(RunError::user(format!(
        "the run in `{}` has made training steps, so --overwrite does not replace it\nhint: choose another --out, \
         or remove the folder",
        run.path().display()
    )))
}

/// Whether the run has not finished a training step.
fn made_no_step(run: &RunReader) -> RunResult<bool> {
    let at_start = match run.state::<TrainingState>()? {
        Some(TrainingState { progress, .. }) => {
            progress.finished.is_empty() && progress.current.is_none_or(|current| current.step == 0)
        }
        None => died_early(run)?,
    };
    Ok(at_start && run.metrics()?.is_empty())
}

/// Rejects a folder with the records of a server.
pub(crate) fn check_run(run: &RunReader) -> RunResult<()> {
    // What cannot be read is reported where it is used.
    recorder(run).ok().flatten().map_or(Ok(()), |recorder| Err(served(run, recorder)))
}

/// Error for a folder that holds the records of a server.
fn served(run: &RunReader, recorder: Recorder) -> RunError {
    let continued = recorder.command(run.path()).map_or(String::new(), |command| format!("; `{command}` continues it"));
    RunError::user(format!(
        "`{}` holds records of {}, and no run\nhint: choose another folder{continued}",
        run.path().display(),
        recorder.name()
    ))
}

/// Error for a folder that holds a run or the records of a server.
fn taken(run: &RunReader) -> RunError {
    if let Err(error) = check_run(run) {
        return error;
    }
    let out = run.path().display();
    let started = run.started().and_then(|started| started.elapsed().ok());
    let started = started.map_or(String::new(), |since| format!(", started {} ago", in_words(since)));
    let finished = if run.summary().is_ok_and(|summary| summary.is_some()) { "a finished run" } else { "a run" };
    // A damaged run may have made steps.
    let replaceable = match made_no_step(run) {
        Ok(true) => "; it has made no step: --overwrite replaces it",
        _ => "",
    };
    RunError::user(format!(
        "`{out}` holds {finished}{started}\nhint: resume it with `host run --resume {out}`, or choose another \
         --out{replaceable}"
    ))
}

/// A time in its largest whole unit.
fn in_words(time: Duration) -> String {
    let (count, unit) = match time.as_secs() {
        seconds @ 0..60 => (seconds, "second"),
        seconds @ 60..3600 => (seconds / 60, "minute"),
        seconds @ 3600..86_400 => (seconds / 3600, "hour"),
        seconds => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_largest_unit() {
        for (seconds, words) in [
            (0, "0 seconds"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (3599, "59 minutes"),
            (7200, "2 hours"),
            (86_400, "1 day"),
            (864_000, "10 days"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
