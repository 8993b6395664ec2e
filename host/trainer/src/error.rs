//! Errors of the trainer. A message says what failed and why, and ends with a hint; causes are in the error chain.

use std::path::{Path, PathBuf};

use gymkhana_algorithm::SettingError;
use gymkhana_learner::DataError;
use gymkhana_policy::PolicyError;
use tch::TchError;

/// A failure of the trainer.
#[derive(Debug, thiserror::Error)]
pub enum TrainerError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The device is not available.
    #[error(
        "cannot use device cuda: {problem}\nhint: set LIBTORCH to the folder of a torch 2.11.0 with CUDA \
         (`python3 -c 'import torch; print(torch.__path__[0])'`) on a machine with a GPU, or write `device = \"cpu\"`"
    )]
    Device {
        /// Reason why the device is unavailable.
        problem: String,
    },
    /// The kernels for the device are not available.
    #[error(
        "cannot prepare the kernels of device cuda: {problem}\nhint: set GYMKHANA_CUDA_KERNELS=0 in the environment to work without them, more slowly"
    )]
    Kernels {
        /// Reason why they are unavailable.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// The action: `read`, `write` …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file is not the expected JSON.
    #[error("cannot parse `{}`: not the expected JSON\nhint: take the file of the original model, or another checkpoint", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: serde_json::Error,
    },
    /// The architecture of a model is not supported.
    #[error("unsupported model in `{}`: {what}\nhint: use unquantised weights of a family that docs/how-to/use-a-model-from-a-hub.md lists; a server in `policy.server` or `[trainer]` can sample and train others", path.display())]
    UnsupportedModel {
        /// The `config.json`.
        path: PathBuf,
        /// The key and value that are not supported.
        what: String,
    },
    /// A folder is not a complete model.
    #[error("cannot load `{}`: {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Missing or invalid part, and a hint.
        problem: String,
    },
    /// A folder to be created exists.
    #[error("cannot write `{}`: the folder exists\nhint: name another folder; checkpoints are never overwritten", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A weight file is damaged or does not fit the model.
    #[error("cannot load weights from `{}`: {problem}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// Which tensor, and what is wrong with it.
        problem: String,
    },
    /// A weight file is not in the safetensors format.
    #[error("`{}` is not a complete safetensors file\nhint: download or copy the file again", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: safetensors::SafeTensorError,
    },
    /// Data that cannot be trained on.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A gradient was not finite, after as many skipped steps as the settings allow; the weights are unchanged.
    #[error(
        "optimiser step {step} failed: the gradient norm is {norm}, after {skipped} skipped steps in a row\nhint: lower \
         `learning_rate`, or check the log-probabilities of the policy that generates; `max_skipped_steps` sets how many \
         steps are skipped"
    )]
    NotFinite {
        /// The norm: an infinity or NaN.
        norm: f64,
        /// The optimiser step, from 1.
        step: u64,
        /// Number of steps in a row that were skipped before.
        skipped: u32,
    },
    /// libtorch failed.
    #[error("libtorch failed while it {during}")]
    Torch {
        /// The operation, in the past tense.
        during: &'static str,
        /// libtorch's error.
        source: TchError,
    },
    /// The thread that owns the model has ended.
    #[error("the model's thread has ended: {0}")]
    Gone(String),
}

impl TrainerError {
    /// The failure of an action on a file or folder, such as `write`.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn torch(during: &'static str) -> impl FnOnce(TchError) -> Self {
        move |source| Self::Torch { during, source: first_line(source) }
    }

    /// Whether the user can fix the error by changing a file or a setting.
    #[must_use]
    pub fn is_users(&self) -> bool {
        !matches!(self, Self::Torch { .. } | Self::Gone(_))
    }
}

/// First line of libtorch's message, without the C++ stack.
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

/// An error and its causes in one line, for interfaces that carry only text.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    words
}
