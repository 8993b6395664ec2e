//! Episodes to play: their tasks in order, their groups in flight, and the places that the sandbox has for them.

pub mod mixture;
mod permutation;
pub mod places;
pub mod remote;
pub mod run_key;
pub mod scheduler;
pub mod seat_players;
pub mod tasks;
