//! Policies that a server plays: vLLM and SGLang by token ids and log-probabilities, others by text alone.
//!
//! What was sampled is what is trained: token ids go out and token ids with their log-probabilities come back, and an
//! answer that no model can have given is a fault of the server's, asked for again and never recorded. Weights reach the
//! server by its own update call, with no request under way, so that every token's version is known.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod policy;
mod protocol;
mod sglang;
mod text;
mod vllm;
mod weights;

pub use policy::{ServerError, ServerPolicy, ServerSettings};
pub use protocol::{LogProbs, Protocol};
