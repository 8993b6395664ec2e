//! The checks, one module each.

use futures::future::BoxFuture;

use crate::finding::Finding;
use crate::fixture::Fixture;

pub(crate) mod capabilities;
pub(crate) mod cost;
pub(crate) mod describe;
pub(crate) mod fuzz;
pub(crate) mod invalid;
pub(crate) mod limits;
pub(crate) mod option_limits;
pub(crate) mod options;
pub(crate) mod oracle;
mod overlap;
pub(crate) mod parameters;
pub(crate) mod scores;
pub(crate) mod splits;
pub(crate) mod state;

/// A check of a plugin that loads.
pub(crate) type Run = for<'a> fn(&'a Fixture) -> BoxFuture<'a, Finding>;
