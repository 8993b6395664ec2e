//! Errors of the processes of PyTorch.

use std::io;

use gymkhana_engine::message::FrameError;

/// Reason for which the processes are gone, with their last words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PyTorch cannot go on: {why}\nhint: {fix}")]
pub struct EngineEnd {
    /// The reason, which names the rank where one failed.
    pub why: String,
    /// Hint.
    pub fix: String,
}

/// The processes cannot be started or used.
#[derive(Debug, thiserror::Error)]
pub enum TorchError {
    /// The program cannot be started.
    #[error("`{python}` cannot be started: {source}\nhint: set trainer.python to a Python with `gymkhana-rl[torch]`")]
    Start {
        /// The program.
        python: String,
        /// Reason.
        source: io::Error,
    },
    /// The processes have ended, or were ended because they were silent.
    #[error(transparent)]
    Ended(#[from] EngineEnd),
    /// The device is not there.
    #[error(
        "PyTorch found the device `{found}`, and policy.device is `{wanted}`\nhint: install a PyTorch for the device, or \
             set policy.device"
    )]
    Device {
        /// Device of the run file.
        wanted: &'static str,
        /// Device that was found.
        found: String,
    },
    /// A request was refused.
    #[error("PyTorch cannot {doing}: {why}")]
    Refused {
        /// Action.
        doing: &'static str,
        /// Reason.
        why: String,
    },
    /// A message cannot be written.
    #[error("a message to PyTorch cannot be written: {0}")]
    Message(#[from] FrameError),
    /// Too many optimiser steps in a row had a gradient that is not finite.
    #[error("the gradient was not finite in {0} optimiser steps in a row\nhint: lower the learning rate")]
    NotFinite(u32),
    /// The stage has no such model.
    #[error("PyTorch scores with the policy and the reference policy only\nhint: use an algorithm without {0}")]
    NoModel(&'static str),
}
