//! The checks, one module each.

pub(crate) mod capabilities;
pub(crate) mod cost;
pub(crate) mod describe;
pub(crate) mod fuzz;
pub(crate) mod invalid;
pub(crate) mod options;
pub(crate) mod oracle;
pub(crate) mod parameters;
pub(crate) mod scores;
pub(crate) mod splits;
pub(crate) mod state;
