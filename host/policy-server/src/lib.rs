//! Policies on inference servers: vLLM and SGLang with token ids and log-probabilities, others with text only.
//!
//! Requests contain token ids and answers contain token ids with log-probabilities, so that training uses exactly the
//! sampled tokens. An answer that a model cannot have sampled is a fault of the server; it is retried and not recorded.
//! Weights are pushed by the server's own update call while no request is in progress, so that the version of every token
//! is known.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod models;
mod policy;
mod protocol;
mod sglang;
mod text;
mod vllm;
mod weights;

pub use error::ServerError;
pub use models::{ServedModel, served_models};
pub use policy::{ServerPolicy, ServerSettings};
pub use protocol::{LogProbs, Protocol};
