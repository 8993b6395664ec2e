//! The run file: one TOML text, overlaid, parsed into typed sections and validated before anything starts.
//!
//! This crate reads files and nothing else: it opens no plugin, no model and no connection.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod builder;
mod checks;
mod episode_rules;
mod error;
mod parse;
mod recorded;
mod recorder;
mod reference;
mod run_file;
mod schema;
mod sections;
#[cfg(test)]
mod tests;

pub use builder::{RunFileBuilder, StageBuilder};
pub use episode_rules::EpisodeRules;
pub use error::RunFileError;
pub use gymkhana_algorithm::TinyModel;
pub use parse::{parse_with_rules, table_with_rules};
pub use recorder::Recorder;
pub use reference::run_file_page;
pub use run_file::{EnvironmentSettings, RunFile};
pub use schema::json_schema;
pub use sections::{
    AdaptiveTasks, AgentSandbox, AgentSection, BestOfNStage, Checkpoint, CheckpointsSection, DifficultyTasks,
    DynamicSampling, EnvironmentEntry, EnvironmentPlugin, EnvironmentSection, EvaluatedFigure, EvaluatedWeights,
    EvaluationMetric, EvaluationSection, FailuresSection, GatewayClient, GatewaySampling, GatewaySection, HttpSection,
    HubModel, LimitsSection, LossReduction, McpSection, MixedOutcomeTasks, ModelSection, Options, PluginSection,
    PolicySection, PrioritizedTasks, Priority, RecordedPreferences, RlStage, SamplerPhase, SamplerSection,
    SandboxSection, SeatBinding, SeatSection, SecretSection, ServerSection, SftStage, SourceKind, SourceSection, Stage,
    StageSeat, StagedTasks, ThoughtsChoice, ThoughtsMarks, ThoughtsWord, TinkerSection, ToolFormatChoice,
    ToolsInPrompt, TorchOptimizer, TorchSection, TrainerSection, TurnSchedule, WeightedTasks, WhenFailing,
    WrapperEntry,
};
