//! Algorithms and settings of training as data: flags, presets, optimiser, device, model sizes. Without libtorch, so that
//! programs which only read run files and records do not load it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod algorithm;
mod check;
mod device;
mod environment;
mod error;
mod flags;
mod kl;
mod lora;
mod off_policy;
mod presets;
mod requirement;
mod settings;
mod tiny;
mod weight;

pub use algorithm::{Algorithm, StageModels};
pub use device::{Accelerator, Precision};
pub use environment::EnvironmentAdvantage;
pub use error::{SettingError, require};
pub use flags::{
    Aggregation, BandMode, BandUnit, Baseline, Bounds, CovarianceClip, Credit, Critic, Direction, EntropyBand, GroupBy,
    LengthPenalty, Level, Mask, Ratio, RegressionOver, Replay, RewardScale, Scale, SharedTurns, Surrogate, WhenClipped,
    Whiten,
};
pub use kl::{AdaptiveKl, Estimator, Kl, KlPlace, ReferenceUpdate};
pub use lora::{Lora, Module};
pub use off_policy::{AboveCap, CapLevel, OffPolicy};
pub use presets::Preset;
pub use requirement::PresetRequirement;
pub use settings::{
    Demonstrations, MomentFormat, Optimizer, ParameterGroup, ParameterKind, RlSettings, Schedule, SftSettings,
};
pub use tiny::TinyModel;
pub use weight::{ScheduleError, Weight, WeightSchedule, WeightShape};
