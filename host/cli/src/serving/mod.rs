//! Commands that serve plugins and policies to others, and the workers at their bus.

mod bus;
mod export;
pub mod gateway;
pub mod serve;
mod session_workers;
pub mod worker;
