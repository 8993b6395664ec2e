//! `[policy]`: weights, size, device and engine of the run's policy.

mod checkpoint;
mod server;
mod thoughts;
mod tool_format;
mod trainer;

use std::collections::BTreeMap;

use gymkhana_algorithm::{Accelerator, Lora, Precision, SftSettings, TinyModel};
use gymkhana_chat::ToolsPlace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;

pub use checkpoint::{Checkpoint, HubModel};
pub use server::ServerSection;
pub use thoughts::{ThoughtsChoice, ThoughtsMarks, ThoughtsWord};
pub use tool_format::ToolFormatChoice;
pub use trainer::{LossReduction, TinkerSection, TorchOptimizer, TorchSection, TrainerSection};

/// Default number of times that a request to a server is repeated.
pub(crate) fn default_retries() -> u32 {
    6
}

/// Default number of concurrent requests to a server.
pub(crate) fn default_requests() -> usize {
    256
}

/// Place of the list of functions in prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolsInPrompt {
    /// Where the chat template lists them; the system message if it lists none.
    #[default]
    Auto,
    /// Where the chat template lists them, if anywhere.
    Template,
    /// The system message.
    System,
}

impl From<ToolsInPrompt> for ToolsPlace {
    fn from(place: ToolsInPrompt) -> Self {
        match place {
            ToolsInPrompt::Auto => Self::Auto,
            ToolsInPrompt::Template => Self::Template,
            ToolsInPrompt::System => Self::System,
        }
    }
}

/// Value of a variable for the chat template. It describes the table for the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "the chat format takes any JSON value")]
enum TemplateValue {
    Flag(bool),
    Number(f64),
    Text(String),
}

/// Policy of the run. Without `checkpoint` and `tiny` it is a tiny model of the default size with random weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// Initial weights. Excludes `tiny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Size of a byte-level model with random initial weights. Excludes `checkpoint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiny: Option<TinyModel>,
    /// Inference server that generates instead of the built-in engine. Requires `checkpoint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSection>,
    /// System prompt of every conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Format of tool calls in replies.
    #[schemars(extend("x-range" = "a name in [Tool formats](tool-formats.md), or a table"))]
    pub tool_format: ToolFormatChoice,
    /// Marks of thoughts in replies. Environments, other seats and rewards see the message without the thoughts before it.
    #[schemars(extend("x-range" = "`auto`, `off`, or `{ open = …, close = … }`"))]
    pub thoughts: ThoughtsChoice,
    /// Place of the list of functions in prompts.
    pub tools_in_prompt: ToolsInPrompt,
    /// Variables for the chat template, such as `enable_thinking = false`.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    #[schemars(with = "BTreeMap<String, TemplateValue>", extend("x-range" = "a table of values"))]
    pub template: serde_json::Map<String, serde_json::Value>,
    /// Name of one of the model's chat templates. Default: `tool_use` where functions are listed, `default` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "by the conversation"))]
    pub template_name: Option<String>,
    /// Sequences that the engine generates concurrently.
    #[schemars(range(min = 1, max = 4096))]
    pub max_concurrent_sequences: usize,
    /// Device of the models.
    pub device: Accelerator,
    /// Number format of forward and backward passes. Trained weights stay in float32; weights that are not trained (those
    /// below adapters, a reference policy, a teacher, models that only generate) are kept in this format.
    pub precision: Precision,
    /// Number format of the output layer; `float32` makes probabilities under `precision = "bfloat16"` finer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`precision`"))]
    pub output_precision: Option<Precision>,
    /// Low-rank adapters; when set, only they are trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
    /// Maximum of the metric `on_policy_divergence`, in nats per token. A larger divergence between the trainer and the
    /// policy that generates ends the run.
    #[schemars(range(min = 0, max = 100))]
    pub max_behaviour_divergence: f64,
    /// Tokens per forward and backward pass; a step accumulates gradients over several passes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub micro_batch_tokens: usize,
    /// Logits that the output layer computes at once, in MiB of float32. Default: 32 on `cpu`; on `cuda` 2560 in float32
    /// and 5120 in bfloat16, or 1024 with a teacher.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub logits_chunk_mib: Option<usize>,
    /// Keys and values of conversations that are kept at most, in MiB. Default: half of the available memory on `cpu`; on
    /// `cuda` as much as `max_concurrent_sequences` conversations of full length take. When it is full, the requests that
    /// started last wait or are computed again. With `deterministic` there is room for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub cache_mib: Option<usize>,
    /// Recomputes layers in the backward pass instead of storing their activations.
    pub activation_checkpointing: bool,
}

impl Default for PolicySection {
    fn default() -> Self {
        Self {
            checkpoint: None,
            tiny: None,
            server: None,
            system: None,
            tool_format: ToolFormatChoice::default(),
            thoughts: ThoughtsChoice::default(),
            tools_in_prompt: ToolsInPrompt::default(),
            template: serde_json::Map::new(),
            template_name: None,
            max_concurrent_sequences: 64,
            device: Accelerator::default(),
            precision: Precision::default(),
            output_precision: None,
            lora: None,
            max_behaviour_divergence: 0.1,
            micro_batch_tokens: SftSettings::default().micro_batch_tokens,
            logits_chunk_mib: None,
            cache_mib: None,
            activation_checkpointing: false,
        }
    }
}

impl PolicySection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        if self.output_precision == Some(Precision::Bfloat16) && self.precision == Precision::Float32 {
            let message = "policy.output_precision is bfloat16, but policy.precision is float32\nhint: remove \
                           output_precision, or set precision = \"bfloat16\"";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        if let Some(lora) = &self.lora {
            lora.check().map_err(|error| RunFileError::Contradiction(format!("policy: {error}")))?;
        }
        if let Some(server) = &self.server {
            server.check(self.checkpoint.is_some())?;
        }
        match (&self.checkpoint, &self.tiny) {
            (Some(_), Some(_)) => {
                let message = "policy has both `checkpoint` and `tiny`, but a checkpoint has its own size\nhint: \
                               remove one of them";
                Err(RunFileError::Contradiction(message.to_owned()))
            }
            (Some(checkpoint), None) => checkpoint.check("policy.checkpoint"),
            (None, Some(tiny)) => {
                tiny.check().map_err(|error| RunFileError::Contradiction(format!("policy.tiny: {error}")))
            }
            (None, None) => Ok(()),
        }
    }
}
