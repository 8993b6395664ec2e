//! Algorithms and settings of training as data: flags, presets, optimiser, device, model sizes. Without libtorch, so that
//! programs which only read run files and records do not load it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod algorithm;
mod check;
mod device;
mod error;
mod flags;
mod lora;
mod presets;
mod requirement;
mod settings;
mod tiny;

pub use algorithm::{Algorithm, StageModels};
pub use device::{Accelerator, Precision};
pub use error::{SettingError, require};
pub use flags::{
    Aggregation, BandMode, BandUnit, Baseline, CapLevel, CovarianceClip, Credit, Critic, EntropyBand, Estimator,
    GroupBy, Kl, KlPlace, LengthPenalty, Level, Mask, OffPolicy, Ratio, RegressionOver, Replay, Scale, SharedTurns,
    Surrogate, WhenClipped, Whiten,
};
pub use lora::{Lora, Module};
pub use presets::Preset;
pub use requirement::Requirement;
pub use settings::{Optimizer, RlSettings, Schedule, SftSettings};
pub use tiny::TinyModel;
