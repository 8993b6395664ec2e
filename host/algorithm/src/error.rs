//! Errors of settings. A message says what failed and why, and ends with a hint; causes are in the error chain.

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A setting is out of range.
    #[error("invalid `{key}`: it is {value}\nhint: it must be {expected}")]
    Range {
        /// The key in the run file.
        key: &'static str,
        /// The value found.
        value: String,
        /// The values allowed.
        expected: &'static str,
    },
    /// A schedule with an invalid key.
    #[error("invalid `{key}`: {source}")]
    Schedule {
        /// The schedule's key in the run file.
        key: &'static str,
        /// The invalid key of the schedule, with a hint.
        source: crate::ScheduleError,
    },
    /// A setting without effect.
    #[error(
        "unused `{key}`: it has an effect only when {when}\nhint: remove it, or write \"off\" if the preset sets it"
    )]
    Unused {
        /// The key in the run file.
        key: &'static str,
        /// Condition under which it has an effect.
        when: &'static str,
    },
    /// A setting that another one requires.
    #[error("missing `{key}`: it is required when {when}\nhint: add it to the settings")]
    Missing {
        /// The key in the run file.
        key: &'static str,
        /// Condition under which it is required.
        when: &'static str,
    },
    /// Unknown preset.
    #[error("unknown algorithm `{name}`\nhint: use one of {known}")]
    Preset {
        /// The name.
        name: String,
        /// Known names, separated by commas.
        known: String,
    },
    /// A table that is not a set of algorithm flags.
    #[error("cannot read the algorithm flags")]
    Flags(#[source] toml::de::Error),
}

/// Returns an error unless `holds`.
///
/// # Errors
/// [`SettingError::Range`] with the key, its value and the values allowed.
pub fn require(
    holds: bool,
    key: &'static str,
    value: impl std::fmt::Display,
    expected: &'static str,
) -> Result<(), SettingError> {
    if holds { Ok(()) } else { Err(SettingError::Range { key, value: value.to_string(), expected }) }
}
