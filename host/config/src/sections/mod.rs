//! Sections of a run file: keys, defaults and ranges.

mod agents;
mod environment;
mod environments;
mod evaluation;
mod failures;
mod grants;
mod limits;
mod mcp;
mod plugins;
mod policy;
mod sampler;
mod sandbox;
mod seats;
mod stages;

pub use agents::{AgentSandbox, AgentSection, GatewayClient, GatewaySampling, GatewaySection};
pub use environment::{EnvironmentSection, Options, WrapperEntry};
pub use environments::{EnvironmentEntry, EnvironmentPlugin, WhenFailing};
pub use evaluation::{CheckpointsSection, EvaluatedFigure, EvaluatedWeights, EvaluationMetric, EvaluationSection};
pub use failures::FailuresSection;
pub use grants::{HttpSection, ModelSection, SecretSection};
pub use limits::LimitsSection;
pub use mcp::McpSection;
pub use plugins::PluginSection;
pub(crate) use plugins::{PluginEntry, plugin_sections, plugins_as_tables};
pub use policy::{
    Checkpoint, HubModel, LossReduction, PolicySection, ServerSection, ThoughtsChoice, ThoughtsMarks, ThoughtsWord,
    TinkerSection, ToolFormatChoice, ToolsInPrompt, TorchOptimizer, TorchSection, TrainerSection,
};
pub use sampler::{
    AdaptiveTasks, DifficultyTasks, MixedOutcomeTasks, PrioritizedTasks, Priority, SamplerPhase, SamplerSection,
    StagedTasks, WeightedTasks,
};
pub use sandbox::SandboxSection;
pub use seats::{SeatBinding, SeatSection};
pub use stages::{
    BestOfNStage, DynamicSampling, RecordedPreferences, RlStage, SftStage, SourceKind, SourceSection, Stage, StageSeat,
    TurnSchedule,
};
pub(crate) use stages::{add_kind, write_out as write_out_sources};
