//! One episode from its start to its record: state, turns, limits, early stop, the turn probe, and trials before a run.

pub(crate) mod agent;
pub(crate) mod early_stop;
pub(crate) mod finish;
pub(crate) mod generate;
pub(crate) mod limits;
pub(crate) mod live_bytes;
pub(crate) mod play;
pub(crate) mod policy_turn;
pub(crate) mod probe;
pub(crate) mod seat_rules;
pub(crate) mod state;
pub(crate) mod state_key;
pub(crate) mod trial;
pub(crate) mod visited;
