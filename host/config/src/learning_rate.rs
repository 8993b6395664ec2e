//! The learning rate of a stage, checked against its optimiser steps.

use gymkhana_algorithm::Optimizer;

use crate::error::RunFileError;

/// Rejects a learning rate that falls to 0 before the stage's last optimiser step.
pub(crate) fn check_schedule(stage: &str, optimizer: &Optimizer, steps: u64) -> Result<(), RunFileError> {
    match optimizer.total_steps {
        Some(total) if total < steps && optimizer.floor == 0.0 => Err(RunFileError::Contradiction(format!(
            "stage `{stage}`: optimizer.total_steps is {total}, but the stage takes up to {steps} optimiser steps, the \
             last {} of them at a learning rate of 0\nhint: set optimizer.total_steps to {steps} or more",
            steps - total
        ))),
        _ => Ok(()),
    }
}
