//! What may change in a resumed run: stages take more steps, and PyTorch has other processes.

use gymkhana_config::{RunFile, Stage, TorchSection, TrainerSection};
use gymkhana_store::RunFolder;

use crate::resume::begun_as;
use crate::state::TrainingState;
use gymkhana_orchestration::{Classify, RunResult};

/// The run file with what may change taken from another one.
pub(crate) fn with_changes_of(mut file: RunFile, other: &RunFile) -> RunFile {
    if let (Some(TrainerSection::Torch(torch)), Some(TrainerSection::Torch(other))) =
        (&mut file.trainer, &other.trainer)
    {
        *torch = TorchSection { optimizer: torch.optimizer, ..other.clone() };
    }
    for (stage, other) in file.stages.iter_mut().zip(&other.stages) {
        match stage {
            Stage::Sft(stage) => stage.steps = other.steps(),
            Stage::Rl(stage) => stage.steps = other.steps(),
            Stage::BestOfN(stage) => stage.steps = other.steps(),
        }
    }
    file
}

/// Reports why the steps of the stages cannot change so; `None` if every stage keeps them, or takes more and no later
/// stage has begun.
pub(crate) fn refusal(begun: &[Stage], stages: &[Stage], state: Option<&TrainingState>) -> Option<&'static str> {
    let mut changed = begun.iter().zip(stages).enumerate().filter(|(_, (begun, stage))| begun.steps() != stage.steps());
    let refused = |(index, (begun, stage)): (usize, (&Stage, &Stage))| {
        if stage.steps() < begun.steps() {
            Some("steps can only grow")
        } else if state.is_some_and(|state| state.progress.has_passed(index)) {
            Some("a later stage has begun")
        } else {
            None
        }
    };
    changed.find_map(refused)
}

/// The state from which the run continues. If the last finished stage takes more steps, it is continued: its result is
/// removed, and the evaluation after it will be repeated.
pub(crate) fn continued(folder: &RunFolder, mut state: TrainingState, stages: &[Stage]) -> RunResult<TrainingState> {
    let Some(begun) = begun_as(folder) else { return Ok(state) };
    let last = state.progress.stage.checked_sub(1).filter(|_| state.progress.current.is_none());
    let steps = |stages: &[Stage]| last.and_then(|last| stages.get(last)).map(Stage::steps);
    if let Some((before, now)) = steps(&begun.stages).zip(steps(stages))
        && before < now
    {
        // In this order a kill at any point leaves a run that can be resumed with the old or the new steps.
        folder.remove_summary()?;
        state.progress.reopen(before);
        folder.write_state(&state)?;
    }
    Ok(state)
}

/// Writes the changes into the folder's run file, once nothing recorded disagrees with them.
pub(crate) fn store(folder: &RunFolder, file: &RunFile) -> RunResult<()> {
    let text = |file: &RunFile| file.resolved().internal();
    match begun_as(folder) {
        Some(begun) if text(&begun)? != text(&with_changes_of(begun.clone(), file))? => {
            Ok(folder.rewrite_run_text(&text(file)?)?)
        }
        _ => Ok(()),
    }
}
