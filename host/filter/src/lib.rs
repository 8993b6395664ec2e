//! Filter expressions over the figures of recorded episodes, such as `success and calls <= 3`.
//!
//! A text is parsed once, to a typed tree: [`Filter::parse`] knows every figure of a fixed name, and refuses the others
//! with the column and the nearest name. Names that depend on a run (components of rewards, environments, splits, stages)
//! are checked by [`Filter::check`] against those that the episodes have.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod episode_names;
mod error;
mod expression;
mod figure;
mod parser;
#[cfg(test)]
mod tests;
mod token;

pub use episode_names::EpisodeNames;
pub use error::{FilterError, UnseenName};
pub use figure::Episode;

use expression::Expression;
use figure::FlagFigure;
use serde::{Deserialize, Serialize};

/// A filter of episodes. Its serialised form is its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Filter {
    text: String,
    expression: Expression,
}

impl Filter {
    /// Parses an expression.
    ///
    /// # Errors
    /// The first mistake, with its column.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.to_owned(), expression: parser::parse(text)? })
    }

    /// The filter `success`.
    #[must_use]
    pub fn success() -> Self {
        Self { text: "success".to_owned(), expression: Expression::Flag { figure: FlagFigure::Success, value: true } }
    }

    /// The text of the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether an episode meets the expression. A comparison with a figure that the episode lacks is false.
    #[must_use]
    pub fn matches(&self, episode: Episode<'_>) -> bool {
        self.expression.holds(episode)
    }

    /// Refuses a name that depends on the run and that no episode has.
    ///
    /// # Errors
    /// The first such name.
    pub fn check(&self, seen: &EpisodeNames) -> Result<(), UnseenName> {
        self.expression.check(seen)
    }
}

impl TryFrom<String> for Filter {
    type Error = FilterError;

    fn try_from(text: String) -> Result<Self, FilterError> {
        Self::parse(&text)
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> Self {
        filter.text
    }
}
