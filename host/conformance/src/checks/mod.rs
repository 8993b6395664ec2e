//! One module for each check.

pub(crate) mod capabilities;
pub(crate) mod cost;
pub(crate) mod describe;
pub(crate) mod determinism;
pub(crate) mod fuzz;
pub(crate) mod invalid;
pub(crate) mod isolation;
pub(crate) mod options;
pub(crate) mod oracle;
pub(crate) mod parameters;
pub(crate) mod read_only;
pub(crate) mod scores;
pub(crate) mod snapshots;
pub(crate) mod splits;
pub(crate) mod state_keys;
