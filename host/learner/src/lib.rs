//! From episodes and demonstrations to what a training engine computes: advantages, minibatches, losses, figures.
//!
//! [`Learner::rl_step`] and [`sft_step`] are one training step each, by any [`Engine`](gymkhana_engine::Engine).
//!
//! The crate never prints.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod advantage;
#[cfg(test)]
mod failed_episodes;
#[cfg(test)]
mod from_records;
#[cfg(test)]
mod goldens;
mod layout;
mod minibatch;
mod on_policy;
mod replay;
mod report;
mod rl;
mod sft;
mod turns;
mod whole_episodes;

pub use layout::{Batch, DataError, RlData, Weighted, check_segment, demonstration_sequences, imitated_sequences};
pub use replay::Buffer;
pub use rl::Learner;
pub use sft::sft_step;
