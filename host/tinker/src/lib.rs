//! Client of Tinker-compatible servers: samples from a model, and trains a LoRA adapter of it.
//!
//! The server keeps the weights. Each call that computes is a future: the first request returns its number, the second
//! one waits for its result. Sampled tokens and passes come as protobuf, everything else as JSON, as in version 0.25 of the
//! official client.
//!
//! The crate never prints.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod datum;
mod error;
mod model;
mod policy;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{TinkerClient, TinkerSettings};
pub use datum::{Datum, Loss, Reduction, TrainedToken};
pub use error::TinkerError;
pub use model::{LoraSettings, Passed, TinkerModel};
pub use policy::TinkerPolicy;
