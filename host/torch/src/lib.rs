//! Training and sampling by PyTorch in processes of its own, one for each device.
//!
//! [`TorchChild`] starts `torchrun` with the Python module `gymkhana_rl.torch` and speaks the messages of
//! [`gymkhana_engine::message`] over a Unix socket. [`TorchEngine`] trains and [`TorchPolicy`] samples with it; they share
//! the weights.
//!
//! The crate never prints.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod child;
mod engine;
mod error;
mod policy;
mod process;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use child::{AnswerMessage, TorchChild};
pub use engine::TorchEngine;
pub use error::{EngineEnd, TorchError};
pub use policy::TorchPolicy;

/// Device of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TorchDevice {
    /// The processor.
    Cpu,
    /// GPUs, one for each process.
    Cuda,
}

impl TorchDevice {
    /// Name in the messages and in run files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// Settings of the processes.
#[derive(Debug, Clone)]
pub struct TorchSettings {
    /// Python with `gymkhana-rl[torch]`.
    pub python: String,
    /// Number of processes.
    pub processes: u32,
    /// Device.
    pub device: TorchDevice,
    /// Threads of each process on the processor.
    pub threads: usize,
    /// Longest time until the first message.
    pub start: Duration,
    /// Longest time without a message while requests wait.
    pub answer: Duration,
}
