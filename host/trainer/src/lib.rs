//! The libtorch model, generation, gradients and checkpoints.
//!
//! [`Trainer`] is the entry point: it owns a model on a separate thread, generates as a
//! [`Policy`](gymkhana_policy::Policy), takes training steps and writes checkpoints. The modules [`loss`], [`model`]
//! and [`adamw`] are public so that they can be read and tested separately.
//!
//! The crate never prints.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adamw;
mod batch;
mod config;
mod cuda;
mod device;
mod engine;
mod error;
mod footprint;
mod lora;
pub mod loss;
pub mod model;
pub mod parameters;
pub mod rope;
mod settings;
mod stage;
mod storage;
mod tiny;
mod trainer;

pub use config::{
    Activation, Biases, BlockNorms, Decoder, ExpertNames, Experts, Family, Fused, LayerKind, ModelConfig, QueryKeyNorm,
    RotaryPairs, Scales, SoftCaps,
};
pub use error::TrainerError;
pub use footprint::{Footprint, moment_bytes};
pub use gymkhana_algorithm::{
    AboveCap, Accelerator, AdaptiveKl, Aggregation, Algorithm, BandMode, BandUnit, Baseline, Bounds, CapLevel,
    CovarianceClip, Credit, Critic, Demonstrations, Direction, EntropyBand, Estimator, GroupBy, Kl, KlPlace,
    LengthPenalty, Level, Lora, Mask, Module, MomentFormat, OffPolicy, Optimizer, ParameterGroup, ParameterKind,
    Precision, Preset, PresetRequirement, Ratio, ReferenceUpdate, RegressionOver, Replay, RewardScale, RlSettings,
    Scale, Schedule, SettingError, SftSettings, SharedTurns, StageModels, Surrogate, TinyModel, WeightSchedule,
    WeightShape, WhenClipped, Whiten,
};
pub use gymkhana_learner::{DataError, RlData, Weighted};
pub use settings::TrainerSettings;
pub use storage::checkpoint::{export_model, open_model};
pub use storage::checksums::FILE as CHECKSUMS_FILE;
pub use storage::converted::ConvertedModel;
pub use storage::description::ModelDescription;
pub use storage::files::{ADAPTER_CONFIG, ModelFiles, check_base};
pub use storage::token_count::TokenCount;
pub use storage::weight_files;
pub use trainer::Trainer;
