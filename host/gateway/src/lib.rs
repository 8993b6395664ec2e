//! A gateway that makes an unmodified agent program the harness of the policy.
//!
//! A program calls the model through the OpenAI or the Anthropic protocol, with the base URL and the key of its episode.
//! Each request is rendered by the model's chat format and sent to the policy as tokens, so that the episode's record
//! holds the tokens that were sampled, whatever the program does to its history. [`dialect`] is pure, [`graph`] orders the
//! requests of an episode into segments, [`session`] answers them with a policy, and [`server`] and [`program`] do the
//! input and output. An [`AgentHarness`] is the player of a rollout's episodes, and [`control`] opens sessions for programs that the host does not start.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod control;
pub mod dialect;
pub mod graph;
mod harness;
pub mod program;
pub mod server;
pub mod session;

pub use harness::{AgentHarness, start_agent};
