//! Episodes in flight: scheduling, chat format, tool calls, limits, groups and rewards.

mod policy;

pub use policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest, Stop,
};
