//! The policy of an episode: a trait that generates and scores tokens, and its implementations without weights.
//!
//! The local engine, remote inference servers, scripts and recordings implement [`Policy`]. This crate handles tokens
//! only: chat templates and tool calls belong to `gymkhana-chat`, weights to `gymkhana-trainer`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod request;
mod sampling;
mod scripted;

pub use request::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, Stop, StopCondition,
};
pub use sampling::{Sampling, SamplingError, deserialize_top_k, kept_tokens};
pub use scripted::{ReplayedPolicy, ScriptedPolicy, certain};
