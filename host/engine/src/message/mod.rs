//! Messages between the host and an engine in another process, version 1.
//!
//! A message is a frame: a length in bytes (`u64`, little-endian), then a body in the layout of safetensors files, whose
//! metadata has one entry, [`ENTRY`], with the head as JSON. Numbers of tokens are tensors of one axis. The engine speaks
//! first, with a [`Hello`]; each further answer names the request that it answers.

mod batch;
mod frame;

use serde::{Deserialize, Serialize};

use crate::Scorer;

pub use batch::TrainingBatch;
pub use frame::{FrameError, MAX_FRAME, MessageTensors, Numbers, read_body, write_frame};

/// Version of the messages.
pub const VERSION: u32 = 1;

/// Entry of the metadata that holds the head.
pub const ENTRY: &str = "gymkhana";

/// Head of a message to the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestHead {
    /// [`VERSION`].
    pub version: u32,
    /// Number of the request, from 1.
    pub id: u64,
    /// The request.
    pub request: EngineRequest,
}

/// Head of a message from the engine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AnswerHead {
    /// [`VERSION`].
    pub version: u32,
    /// Number of the request; 0 for [`Hello`].
    pub id: u64,
    /// The answer, unless the request was refused.
    #[serde(default)]
    pub answer: Option<EngineAnswer>,
    /// Reason for which the request was refused.
    #[serde(default)]
    pub error: Option<RefusedRequest>,
}

/// A refused request. The engine goes on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RefusedRequest {
    /// Kind, such as `invalid`.
    pub kind: String,
    /// The reason.
    pub text: String,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EngineRequest {
    /// Loads the model. Answer: [`OpenedModel`].
    Open(OpenModel),
    /// A forward pass over a [`TrainingBatch`]. Answer: [`EngineAnswer::Found`] with `log_probs` and, if asked, `entropies`, one
    /// number for each target.
    Forward {
        /// Weights that score.
        scorer: MessageScorer,
        /// Sampling temperature of the tokens.
        temperature: f64,
        /// Whether to compute entropies.
        entropies: bool,
        /// Whether to keep what one [`EngineRequest::Backward`] needs.
        keep: bool,
    },
    /// Adds the gradient of the sum of the kept pass's numbers, weighted by `by_log_probs` and `by_entropies`.
    Backward {},
    /// Forgets the gradients and the optimizer's state.
    BeginStage {},
    /// Forgets the gradients.
    BeginUpdate {},
    /// Takes a step of AdamW. Answer: [`EngineAnswer::Stepped`].
    Step(AdamStep),
    /// Keeps a share of the last step: the weights are then as far from those before it as that share of it.
    Shorten {
        /// The share, from 0 to below 1.
        share: f64,
    },
    /// Samples with the current weights from now on, whose tokens have this version. Tokens are not sampled between a step
    /// and the next publication.
    Publish {
        /// Version of the weights.
        version: u32,
    },
    /// Moves the reference policy by a share of the way to the policy; 1 copies it, and `None` drops it.
    Reference {
        /// The share, above 0 and up to 1.
        share: Option<f64>,
    },
    /// Continues `tokens`. Answer: [`SampledReply`] with `tokens`, `log_probs` and `entropies`.
    Generate(Generate),
    /// Writes the weights for transformers, and what a later [`OpenModel`] resumes from.
    Save {
        /// Existing folder of the weights.
        weights: String,
        /// Folder of the state of the optimizer and of the reference policy, which must not exist yet; none for weights alone.
        state: Option<String>,
        /// Whether an output layer that shares the embedding's weights is written as a layer of its own.
        untied: bool,
    },
    /// Ends the engine.
    Close {},
}

/// Loads a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenModel {
    /// Folder that transformers loads.
    pub model: String,
    /// State that [`EngineRequest::Save`] wrote.
    pub state: Option<String>,
    /// Whether the state's reference policy is restored.
    pub reference: bool,
    /// Number format of passes: `float32`, `bfloat16`, or `float64` in tests. Trained weights stay in float32.
    pub dtype: String,
    /// Whether the backward pass recomputes the layers instead of keeping their activations.
    pub checkpointing: bool,
    /// Low-rank adapters that are trained instead of the weights.
    pub lora: Option<OpenLora>,
    /// Optimizer: `adamw`, or `adamw8bit`.
    pub optimizer: String,
    /// Seed of random weights.
    pub seed: u64,
}

/// Low-rank adapters on all linear layers but the output layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenLora {
    /// Rank.
    pub rank: u64,
    /// Scale: the adapters' term is multiplied by `alpha / rank`.
    pub alpha: f64,
    /// Seed of their random half.
    pub seed: u64,
}

/// Numbers of a step of AdamW.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamStep {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Term added to the root of the mean square.
    pub epsilon: f64,
    /// Decoupled weight decay of matrices, but not of embeddings, norms and biases.
    pub weight_decay: f64,
    /// Maximum gradient norm; larger gradients are rescaled.
    pub max_norm: Option<f64>,
    /// Whether to keep the weights before the step for one [`EngineRequest::Shorten`].
    pub keep: bool,
}

/// Sampling of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generate {
    /// Maximum number of sampled tokens, at least 1.
    pub max_tokens: usize,
    /// Tokens that end the reply; the token is part of it.
    pub stop: Vec<u32>,
    /// Temperature; 0 takes the most probable token.
    pub temperature: f32,
    /// Number of most probable tokens that are kept; 0 keeps all.
    pub top_k: u32,
    /// Probability that is kept; 1 keeps all.
    pub top_p: f32,
    /// Smallest probability that is kept, as a share of the largest; 0 keeps all.
    pub min_p: f32,
    /// Random stream of the reply.
    pub seed: u64,
}

/// Weights that score tokens, of those that an engine in another process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageScorer {
    /// The policy in training.
    Policy,
    /// The reference policy.
    Reference,
}

impl MessageScorer {
    /// The scorer of a pass; `None` for the teacher, which such an engine lacks.
    #[must_use]
    pub fn of(scorer: Scorer) -> Option<Self> {
        match scorer {
            Scorer::Policy => Some(Self::Policy),
            Scorer::Reference => Some(Self::Reference),
            Scorer::Teacher => None,
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EngineAnswer {
    /// The engine is there.
    Hello(Hello),
    /// The model is loaded.
    Opened(OpenedModel),
    /// What a forward pass found.
    Found {},
    /// An optimiser step.
    Stepped {
        /// Whether the weights moved; not if the gradient is not finite.
        taken: bool,
        /// Norm of the gradient before clipping.
        norm: Option<f64>,
    },
    /// A reply.
    Generated(SampledReply),
    /// The files are written.
    Saved {},
    /// The request was followed.
    Done {},
}

/// First message of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// Its version of the messages.
    pub version: u32,
    /// Number of its processes.
    pub ranks: u32,
    /// Device, such as `cpu`.
    pub device: String,
    /// Version of PyTorch.
    pub torch: String,
    /// Version of transformers.
    pub transformers: String,
}

/// A loaded model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct OpenedModel {
    /// Number of weights, without adapters.
    pub parameters: u64,
    /// Number of trained weights.
    pub trained: u64,
    /// Size of the vocabulary.
    pub vocabulary: usize,
    /// Maximum number of tokens of a conversation.
    pub context: usize,
}

/// End of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SampledReply {
    /// Reason of the end.
    pub stop: GeneratedStop,
    /// Version of the weights.
    pub version: u32,
}

/// Reason for which a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratedStop {
    /// A stop token.
    Token,
    /// `max_tokens`, or the end of the context.
    Length,
}
