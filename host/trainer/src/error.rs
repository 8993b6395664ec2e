//! What can go wrong in the trainer: each message names the object and the fix, and leaves the cause to the chain.

use std::path::{Path, PathBuf};

use gymkhana_policy::PolicyError;
use tch::TchError;

/// A failure of the trainer.
#[derive(Debug, thiserror::Error)]
pub enum TrainerError {
    /// A setting is out of its range, or nothing uses it.
    #[error("`{key}` is {value}; it must be {expected}")]
    Setting {
        /// The key in the run file.
        key: &'static str,
        /// What was written.
        value: String,
        /// What may be written.
        expected: &'static str,
    },
    /// A setting that nothing uses.
    #[error("`{key}` is set, and nothing uses it unless {when}; leave it out, or write \"off\" where a preset sets it")]
    UnusedSetting {
        /// The key in the run file.
        key: &'static str,
        /// When it would be used.
        when: &'static str,
    },
    /// A setting without which another makes no sense.
    #[error("`{key}` is missing; it is needed when {when}")]
    MissingSetting {
        /// The key in the run file.
        key: &'static str,
        /// What needs it.
        when: &'static str,
    },
    /// The model cannot live where it is to.
    #[error(
        "`device` is cuda, which cannot be used here: {problem}; set LIBTORCH to the folder of a torch 2.11.0 with CUDA \
         (`python3 -c 'import torch; print(torch.__path__[0])'`) on a machine with a GPU, or write `device = \"cpu\"`"
    )]
    Device {
        /// What is missing.
        problem: String,
    },
    /// There is no algorithm of this name.
    #[error("there is no algorithm `{name}`; the presets are {known}")]
    Preset {
        /// What was asked for.
        name: String,
        /// The names that exist, in one line.
        known: String,
    },
    /// A table that is not a set of algorithm flags.
    #[error("cannot read the algorithm flags")]
    Flags(#[source] toml::de::Error),
    /// A file could not be read or written.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was tried: `read`, `write` …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds other JSON than it should.
    #[error("`{}` is not the JSON that it should be", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A model folder asks for what this trainer does not do.
    #[error("`{}` describes a model with {what}; this trainer runs the Qwen2, Qwen3 and Llama models for causal language modelling, with full attention, SiLU and plain weights, at default, linear, dynamic, yarn or llama3 rotary positions", path.display())]
    UnsupportedModel {
        /// The `config.json`.
        path: PathBuf,
        /// The key and value that are not supported.
        what: String,
    },
    /// A folder is no model, or only half of one.
    #[error("`{}` is no complete model folder: {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is missing or does not fit, and what to do.
        problem: String,
    },
    /// A folder that should be new is there already.
    #[error("`{}` exists already; a checkpoint is never overwritten: name another folder", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A file of weights is damaged or does not fit the model.
    #[error("`{}` holds other weights than its config.json says: {problem}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// Which tensor, and what is wrong with it.
        problem: String,
    },
    /// A file of weights is not in the safetensors format.
    #[error("`{}` is not a whole safetensors file", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// Why.
        source: safetensors::SafeTensorError,
    },
    /// Data that cannot be trained on.
    #[error("cannot train on {what}: {problem}")]
    Data {
        /// The episode or demonstration.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A gradient was not finite; the weights were left as they were.
    #[error("the gradient's norm was {norm} at optimiser step {step}; lower `learning_rate` or `gradient_clip`")]
    NotFinite {
        /// The norm: an infinity or NaN.
        norm: f64,
        /// The optimiser step, from 1.
        step: u64,
    },
    /// libtorch refused an operation.
    #[error("libtorch failed while it {during}")]
    Torch {
        /// What it was doing.
        during: &'static str,
        /// What it said.
        source: TchError,
    },
    /// The thread that owns the model is gone.
    #[error("the model's thread is gone: {0}")]
    Gone(String),
}

impl TrainerError {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn torch(during: &'static str) -> impl FnOnce(TchError) -> Self {
        move |source| Self::Torch { during, source: first_line(source) }
    }

    /// Whether the user can mend it by changing a file or a setting, rather than us by changing the program.
    #[must_use]
    pub fn is_users(&self) -> bool {
        !matches!(self, Self::Torch { .. } | Self::Gone(_))
    }
}

/// What libtorch said, without its stack of C++ frames.
fn first_line(error: TchError) -> TchError {
    match error {
        TchError::Torch(words) => TchError::Torch(words.lines().next().unwrap_or_default().to_owned()),
        other => other,
    }
}

impl From<TrainerError> for PolicyError {
    fn from(error: TrainerError) -> Self {
        Self::Gone(chain(&error))
    }
}

/// An error and its causes in one line, where only text can travel on.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    words
}

/// Refuses a setting unless `holds`.
pub(crate) fn require(
    holds: bool,
    key: &'static str,
    value: impl std::fmt::Display,
    expected: &'static str,
) -> Result<(), TrainerError> {
    if holds { Ok(()) } else { Err(TrainerError::Setting { key, value: value.to_string(), expected }) }
}
