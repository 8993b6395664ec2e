//! Ranges of values, and values left at their defaults.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::error::RunFileError;

/// Refuses a value out of range by its key.
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

/// Whether a value is what stands for it when nothing is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
