//! Failures of the package's functions, and the Python exceptions that they become.

use gymkhana_driver::{SessionError, TaskError, UnknownOption};
use gymkhana_orchestration::{Classify, RunError};
use gymkhana_record::{Failure, FailureKind};
use gymkhana_sandbox::CallError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Module of the exceptions.
const MODULE: &str = "gymkhana_rl.errors";

/// Separator between a message and its hint.
const HINT: &str = "\nhint: ";

/// Error of a step before the first episode.
const NOT_BEGUN: &str = "the episode cannot go on: it has not begun\nhint: call reset()";

/// Error of a step after the end.
const OVER: &str = "the episode cannot go on: it has ended\nhint: call reset() for the next one";

/// Why a function failed.
#[derive(Debug)]
pub enum FunctionFault {
    /// A component, a name or a grant cannot be loaded.
    Load(RunError),
    /// An option, a split, a task, a seat or an action is not one of the plugin's.
    Option(String),
    /// A plugin failed.
    Plugin(PluginFailure),
    /// The object was made before a fork.
    Forked,
    /// The object was closed.
    Closed(&'static str),
    /// The interpreter is shutting down.
    Ending,
    /// The process may use too little address space.
    AddressSpace(String),
    /// The episode has ended, or has not begun.
    Ended(&'static str),
    /// A rollout cannot be played.
    Play(RunError),
    /// The caller ended a call.
    Interrupted,
    /// Fault of this package or the system.
    Internal(String),
}

/// A failed call of a plugin.
#[derive(Debug)]
pub struct PluginFailure {
    /// Short name of the plugin.
    pub plugin: String,
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Reason.
    pub message: String,
}

impl PluginFailure {
    /// The failure of a call of this plugin.
    pub fn of(plugin: &str, error: CallError) -> Self {
        Self { plugin: plugin.to_owned(), kind: error.kind, message: error.message }
    }
}

impl From<Failure> for PluginFailure {
    fn from(failure: Failure) -> Self {
        let plugin = failure.at.plugin().unwrap_or("host").to_owned();
        let message = format!("{} failed during {}: {}", failure.at, failure.call_site, failure.message);
        Self { plugin, kind: failure.kind, message }
    }
}

impl From<PluginFailure> for FunctionFault {
    fn from(failure: PluginFailure) -> Self {
        Self::Plugin(failure)
    }
}

impl From<Failure> for FunctionFault {
    fn from(failure: Failure) -> Self {
        Self::Plugin(failure.into())
    }
}

impl From<SessionError> for FunctionFault {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::NotBegun => Self::Ended(NOT_BEGUN),
            SessionError::Over => Self::Ended(OVER),
            SessionError::Task(_) | SessionError::NotCopied | SessionError::OtherTools(_) => {
                Self::Option(error.to_string())
            }
            SessionError::Unsupported { ref at, .. } => {
                let plugin = at.plugin().unwrap_or_default().to_owned();
                PluginFailure { plugin, kind: FailureKind::Refused, message: error.to_string() }.into()
            }
            SessionError::NotStarted(failed) => failed.failure.into(),
            SessionError::Failed(failure) => failure.into(),
            SessionError::Call { plugin, error } => PluginFailure::of(&plugin, error).into(),
        }
    }
}

impl From<TaskError> for FunctionFault {
    fn from(error: TaskError) -> Self {
        Self::Option(error.to_string())
    }
}

impl From<UnknownOption> for FunctionFault {
    fn from(error: UnknownOption) -> Self {
        Self::Option(error.to_string())
    }
}

impl From<RunError> for FunctionFault {
    fn from(error: RunError) -> Self {
        Self::Load(error)
    }
}

impl FunctionFault {
    /// An error of loading.
    pub fn load(error: impl Into<anyhow::Error>) -> Self {
        Self::Load(Err::<(), _>(error).user_error().expect_err("it is an error"))
    }
}

/// The word of a failure's kind in records.
pub fn word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Trap => "trap",
        FailureKind::Budget => "budget",
        FailureKind::Fuel => "fuel",
        FailureKind::Deadline => "deadline",
        FailureKind::Memory => "memory",
        FailureKind::ResultSize => "result-size",
        FailureKind::EpisodeSize => "episode-size",
        FailureKind::Malformed => "malformed",
        FailureKind::Refused => "refused",
        FailureKind::Neighbour => "neighbour",
        FailureKind::Capacity => "capacity",
        FailureKind::Fault => "fault",
    }
}

/// A message on one line, without its hint.
fn one_line(message: &str) -> String {
    message.replace("\n  because: ", ": ")
}

/// A message and its hint.
fn split(message: &str) -> (String, Option<String>) {
    match message.split_once(HINT) {
        Some((message, hint)) => (one_line(message), Some(hint.to_owned())),
        None => (one_line(message), None),
    }
}

impl From<FunctionFault> for PyErr {
    fn from(fault: FunctionFault) -> Self {
        Python::attach(|py| exception(py, &fault).unwrap_or_else(|error| error))
    }
}

/// The exception of a failure. A signal that arrived meanwhile, such as that of Ctrl-C, wins.
fn exception(py: Python<'_>, fault: &FunctionFault) -> PyResult<PyErr> {
    py.check_signals()?;
    let (class, (message, hint)) = match fault {
        FunctionFault::Load(error) => ("LoadError", split(&error.to_string())),
        FunctionFault::Option(message) => ("OptionError", split(message)),
        FunctionFault::Plugin(PluginFailure { plugin, kind, message }) => {
            let (message, hint) = split(message);
            let class = class(py, "PluginError")?;
            return Ok(PyErr::from_value(class.call1((message, hint, plugin, word(*kind)))?));
        }
        FunctionFault::Forked => (
            "StaleHandleError",
            split(
                "this object cannot be used here: it was made before this process was forked\nhint: make it again in \
                 the child, or pass it through pickle",
            ),
        ),
        FunctionFault::Closed(what) => {
            ("StaleHandleError", split(&format!("this {what} cannot be used: it is closed")))
        }
        FunctionFault::Ending => ("GymkhanaError", split("no plugin can be called: the interpreter is shutting down")),
        FunctionFault::AddressSpace(message) => ("GymkhanaError", split(message)),
        FunctionFault::Play(error) => ("PlayError", split(&error.to_string())),
        FunctionFault::Interrupted => ("GymkhanaError", split("the rollout was interrupted")),
        FunctionFault::Ended(message) => ("EpisodeEndedError", split(message)),
        FunctionFault::Internal(message) => return Ok(PyRuntimeError::new_err(message.clone())),
    };
    Ok(PyErr::from_value(self::class(py, class)?.call1((message, hint))?))
}

/// The module of the exceptions. It must be imported before the interpreter ends, when nothing can be imported.
///
/// # Errors
/// If it cannot be imported.
pub fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    ERRORS.get_or_try_init(py, || py.import(MODULE).map(Bound::unbind)).map(|module| module.bind(py))
}

/// A class of the module of exceptions.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(module(py)?.getattr(name)?.cast_into()?)
}
