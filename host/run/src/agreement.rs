//! Whether the files of a resumed run agree with the position in its `state.json`.

use std::fs;

use gymkhana_config::Stage;
use gymkhana_record::{EpisodeId, Phase};
use gymkhana_registry::Digest;
use gymkhana_store::{EpisodeReader, RunFolder};
use gymkhana_trainer::CHECKSUMS_FILE;

use crate::seats::SeatPolicies;
use crate::state::{SavedCheckpoint, TrainingState};
use gymkhana_orchestration::{Classify, RunError, RunResult};

/// Error of a `state.json` that is missing or disagrees with the other files.
pub(crate) fn lost_state(folder: &RunFolder, problem: &str) -> RunError {
    let out = folder.reader().path().display();
    RunError::user(format!(
        "`{out}/state.json` {problem}\nhint: restore the file, or start a new run in another --out; `host show` and \
         `host replay` still read this one"
    ))
}

/// Checks the position against the stages of the run and against the last line of the metrics before it.
pub(crate) fn position(folder: &RunFolder, state: &TrainingState, stages: &[Stage]) -> RunResult<()> {
    state.check(stages).map_err(|problem| lost_state(folder, &format!("does not fit the run: {problem}")))?;
    let lines = folder.reader().metrics_before(&state.metrics)?;
    // Without lines, the user has moved the file away.
    let Some(last) = lines.last() else { return Ok(()) };
    let (found, expected) = ((last.stage, last.step), last_step(state, stages));
    if Some(found) == expected {
        return Ok(());
    }
    let (stage, step) = found;
    Err(lost_state(
        folder,
        &format!(
            "does not fit `metrics.jsonl`: the checkpoint is `{}`, but the last line before it is that of step {step} \
             of stage {stage}",
            state.checkpoint.name
        ),
    ))
}

/// Stage and index of the last training step before the state's checkpoint; `None` before the first step.
fn last_step(state: &TrainingState, stages: &[Stage]) -> Option<(u32, u64)> {
    let checkpoint = state.checkpoint.name;
    let (stage, steps) = match checkpoint.step {
        0 => {
            let before = checkpoint.stage.checked_sub(1)?;
            (before, state.progress.steps_taken(before, stages)?)
        }
        steps => (checkpoint.stage, steps),
    };
    Some((u32::try_from(stage).ok()?, steps.checked_sub(1)?))
}

/// Checks the opened models against the checkpoint: the position that each was saved with, and the digest of its list
/// of checksums.
pub(crate) fn checkpoint(folder: &RunFolder, saved: &SavedCheckpoint, seats: &SeatPolicies) -> RunResult<()> {
    let (name, position) = (saved.name.to_string(), saved.name.position());
    let mut trained = 0;
    for model in seats.trained() {
        let part = model.checkpoint(&name);
        let path = folder.reader().checkpoints_path().join(&part);
        let list = path.join(CHECKSUMS_FILE);
        let refused = |problem: &str| {
            let path = path.display();
            RunError::user(format!(
                "the checkpoint `{path}` {problem}\nhint: restore it from a copy of the run, or start a new run in \
                 another --out"
            ))
        };
        if model.trainer.position() != Some(&position) {
            return Err(refused("holds another position in its trainer.json than state.json"));
        }
        let unread = format!("`{}` cannot be read\nhint: restore it from a copy of the run", list.display());
        let digest = Digest::of(&fs::read(&list).user_context(unread)?);
        if saved.models.get(&part) != Some(&digest) {
            return Err(refused(&format!("is not the one that state.json names: its {CHECKSUMS_FILE} differs")));
        }
        trained += 1;
    }
    if saved.models.len() == trained {
        return Ok(());
    }
    let count = saved.models.len();
    Err(lost_state(folder, &format!("does not fit the run: it names {count} models, but the run trains {trained}")))
}

/// Checks that no episode was stored after the position where the state had to be written again: one of a later stage,
/// or of the evaluation after a stage whose steps are not all taken.
pub(crate) fn episodes(
    folder: &RunFolder,
    state: &TrainingState,
    stages: &[Stage],
    stored: &EpisodeReader,
) -> RunResult<()> {
    // Ids are sorted by stage, phase and step.
    match stored.ids().last() {
        Some(last) if !may_exist(*last, state, stages) => {
            let name = state.checkpoint.name;
            Err(lost_state(
                folder,
                &format!("is older than `episodes`: it is at `{name}`, but episode {last} is stored"),
            ))
        }
        _ => Ok(()),
    }
}

fn may_exist(id: EpisodeId, state: &TrainingState, stages: &[Stage]) -> bool {
    let (stage, at) = (state.progress.stage, id.stage as usize);
    match &state.progress.current {
        None => at < stage,
        Some(current) => {
            let after = matches!(id.phase, Phase::After | Phase::AfterSampled);
            let complete = stages.get(stage).is_some_and(|stage| current.is_over(stage));
            at < stage || (at == stage && (complete || !after))
        }
    }
}
