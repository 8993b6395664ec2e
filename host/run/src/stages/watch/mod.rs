//! Warnings about stages that learn nothing or the wrong thing.

mod calls;
mod cut;
mod signal;
mod worse;

pub(crate) use calls::CallWatch;
pub(crate) use cut::CutWatch;
pub(crate) use signal::{SignalWatch, StepSignal, has_signal};
pub use worse::BetterCheckpoint;
