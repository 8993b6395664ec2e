//! The connection to a real vLLM server on the CPU: `cargo xtask test --reference vllm` runs these tests.
#![allow(clippy::print_stdout, reason = "the figures in docs/how-to/serve-the-policy.md")]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod gateway;
#[path = "../../../../tests/tests/peer/mod.rs"]
mod peer;
mod pushes;
mod recordings;
mod runs;
mod server;
