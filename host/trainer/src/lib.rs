//! The libtorch model, generation, advantages, losses and checkpoints.
//!
//! [`Trainer`] is the entry point: it owns a model on a separate thread, generates as a
//! [`Policy`](gymkhana_policy::Policy), takes training steps and writes checkpoints. The modules [`advantage`],
//! [`loss`], [`model`] and [`adamw`] are public so that they can be read and tested separately.
//!
//! The crate never prints.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adamw;
pub mod advantage;
mod algorithm;
mod batch;
mod config;
mod device;
mod engine;
mod error;
mod learner;
mod lora;
pub mod loss;
pub mod model;
pub mod parameters;
pub mod rope;
mod settings;
mod storage;
mod tiny;
pub mod token_stats;
mod trainer;

pub use algorithm::{
    Aggregation, Algorithm, BandMode, Baseline, CapLevel, CovarianceClip, Credit, Critic, EntropyBand, Estimator,
    GroupBy, Kl, KlPlace, LengthPenalty, Level, Mask, OffPolicy, Preset, Ratio, Replay, Requirement, Scale, Surrogate,
    WhenClipped, Whiten,
};
pub use config::{Biases, Family, ModelConfig};
pub use device::Accelerator;
pub use error::TrainerError;
pub use learner::StageModels;
pub use lora::{Lora, Module};
pub use settings::{Optimizer, Precision, RlSettings, Schedule, Settings, SftSettings};
pub use storage::checkpoint::open_model;
pub use storage::checksums::FILE as CHECKSUMS_FILE;
pub use storage::files::ModelFiles;
pub use storage::weight_files;
pub use tiny::TinyModel;
pub use trainer::Trainer;
