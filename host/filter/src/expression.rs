//! The typed tree of an expression.

use crate::episode_names::EpisodeNames;
use crate::error::UnseenName;
use crate::figure::{Episode, FlagFigure, NumberFigure, TextFigure};
use crate::token::Sign;

/// A number in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Number {
    Literal(f64),
    Figure(NumberFigure),
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Flag { figure: FlagFigure, value: bool },
    Numbers { left: Number, sign: Sign, right: Number },
    Text { figure: TextFigure, equal: bool, text: String },
}

impl Expression {
    /// Whether an episode meets the expression.
    pub fn holds(&self, episode: Episode<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(episode)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(episode)),
            Self::Not(part) => !part.holds(episode),
            Self::Flag { figure, value } => figure.of(episode.record) == *value,
            Self::Numbers { left, sign, right } => {
                let sides = left.of(episode).zip(right.of(episode));
                sides.is_some_and(|(left, right)| compare(left, *sign, right))
            }
            Self::Text { figure, equal, text } => figure.is(episode, text) == *equal,
        }
    }

    /// Refuses a name that no episode has.
    pub fn check(&self, seen: &EpisodeNames) -> Result<(), UnseenName> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().try_for_each(|part| part.check(seen)),
            Self::Not(part) => part.check(seen),
            Self::Flag { .. } => Ok(()),
            Self::Numbers { left, right, .. } => [left, right].into_iter().try_for_each(|side| match side {
                Number::Figure(NumberFigure::Component(component)) => seen.check_component(component),
                Number::Figure(_) | Number::Literal(_) => Ok(()),
            }),
            Self::Text { figure, text, .. } => seen.check_text(*figure, text),
        }
    }
}

impl Number {
    fn of(&self, episode: Episode<'_>) -> Option<f64> {
        match self {
            Self::Literal(number) => Some(*number),
            Self::Figure(figure) => figure.of(episode.record),
        }
    }
}

fn compare(left: f64, sign: Sign, right: f64) -> bool {
    match sign {
        Sign::Equal => left == right,
        Sign::Unequal => left != right,
        Sign::Less => left < right,
        Sign::AtMost => left <= right,
        Sign::Greater => left > right,
        Sign::AtLeast => left >= right,
    }
}
