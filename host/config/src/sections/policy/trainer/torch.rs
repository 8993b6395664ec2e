//! `kind = "torch"`: PyTorch in processes of its own.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// PyTorch in processes of its own, one for each GPU: trains any causal model of transformers that `policy.checkpoint`
/// names, sharded by FSDP2, and samples from it.
///
/// Stages are `sft`, and `rl` without a critic and without a teacher. `threads` (of each process), `policy.device`, `policy.precision`, `policy.lora` (on
/// all linear layers), `policy.micro_batch_tokens` (of each process) and `policy.activation_checkpointing` hold;
/// with `policy.server` that server samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = kind)]
pub struct TorchSection {
    /// Python in which `gymkhana-rl[torch]` is installed.
    #[serde(default = "python")]
    pub python: String,
    /// Number of processes: that of the GPUs.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub processes: u32,
    /// Optimizer of the weights.
    #[serde(default)]
    pub optimizer: TorchOptimizer,
    /// Longest time until the processes have started, in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1, max = 86400))]
    pub start_seconds: f64,
    /// Longest time without a message while a request waits, in seconds.
    #[serde(default = "super::tinker::hour")]
    #[schemars(range(min = 1, max = 86400))]
    pub seconds: f64,
    /// Concurrent requests for tokens.
    #[serde(default = "crate::sections::policy::default_requests")]
    #[schemars(range(min = 1, max = 65_536))]
    pub requests: usize,
}

/// Optimizer of the processes of PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TorchOptimizer {
    /// AdamW of PyTorch.
    #[default]
    AdamW,
    /// AdamW of torchao, whose moments have 8 bits.
    AdamW8Bit,
}

impl TorchOptimizer {
    /// Name in the messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdamW => "adamw",
            Self::AdamW8Bit => "adamw8bit",
        }
    }
}

fn kind(schema: &mut Schema) {
    crate::sections::add_kind(schema, &["torch"], "PyTorch in processes of its own.");
}

fn python() -> String {
    "python3".to_owned()
}

fn one() -> u32 {
    1
}

fn ten_minutes() -> f64 {
    600.0
}

impl TorchSection {
    /// Longest time until the processes have started.
    #[must_use]
    pub fn start(&self) -> Duration {
        Duration::from_secs_f64(self.start_seconds)
    }

    /// Longest time without a message while a request waits.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}
