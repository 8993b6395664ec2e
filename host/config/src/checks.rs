//! Checks of values that several sections share: ranges, defaults, learning rates.

use std::fmt::Display;
use std::ops::RangeInclusive;

use gymkhana_algorithm::Optimizer;

use crate::error::RunFileError;

/// Rejects a value outside its range; `words` describes the range in the hint.
pub(crate) fn check_range<T: PartialOrd + Display + Copy>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
    words: &'static str,
) -> Result<(), RunFileError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(RunFileError::Range { key: key.to_owned(), value: value.to_string(), range: words })
}

/// Reports whether a value is its type's default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

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
