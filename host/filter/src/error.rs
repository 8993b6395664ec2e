//! Errors: a text that is not an expression, and a name that no episode has.

use std::fmt;

/// A text that is not a filter expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FilterError {
    /// The text.
    pub text: String,
    /// Column of the mistake in characters, from 1.
    pub column: usize,
    /// Description of the mistake.
    pub problem: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is wrong at column {}: {}", self.text, self.column, self.problem)
    }
}

/// A name in an expression that no episode has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no episode has {what} `{name}`{near}")]
pub struct UnseenName {
    /// Kind of the name, with its article.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// A clause with the nearest name, or with all names.
    pub near: String,
}
