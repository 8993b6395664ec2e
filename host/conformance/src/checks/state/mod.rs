//! Checks of the state: equal inputs, copies, keys, reads, and neighbours in one instance.

pub(crate) mod determinism;
pub(crate) mod isolation;
pub(crate) mod read_only;
pub(crate) mod snapshots;
pub(crate) mod state_keys;
