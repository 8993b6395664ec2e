//! Checks of ranges and of default values.

use std::fmt::Display;
use std::ops::RangeInclusive;

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
