//! The functions of the contract, as calls of a Python object.

use gymkhana_record::{Call, FailureKind, NamedValue, Part, Seed, TaskRef};
use gymkhana_sandbox::unsandboxed::{PluginResult, Unsandboxed, contract};
use gymkhana_sandbox::{Action, CallError, OptionalInterface, Trajectory};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::local::arguments::{ContentParts, Group, NamedValues, called};
use crate::local::{outlasting, results};

/// Code of a class: an object of `gymkhana_rl._local_code`.
pub struct PythonCode {
    code: Py<PyAny>,
    /// Optional methods that the class defines.
    offered: Vec<String>,
}

impl PythonCode {
    /// The code of a class that defines these optional methods.
    pub fn new(code: Py<PyAny>, offered: Vec<String>) -> Self {
        Self { code, offered }
    }

    /// Code of the same class without episodes or sessions. To end it leaves this code as it is.
    ///
    /// # Errors
    /// If Python raises.
    pub fn again(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self::new(self.code.call_method0(py, intern!(py, "again"))?, self.offered.clone()))
    }

    /// Refuses later calls, and ends those in progress at their next instruction in Python.
    ///
    /// # Errors
    /// If Python raises.
    pub fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.code.call_method0(py, intern!(py, "end")).map(drop)
    }

    /// Runs a function of the object. An exception becomes a failure with the author's line.
    fn run<R>(
        &self,
        arguments: impl for<'py> IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> PluginResult<R> {
        Python::attach(|py| {
            let done = self.code.bind(py).getattr(intern!(py, "call")).and_then(|call| {
                let arguments = arguments.into_pyobject(py)?;
                read(&outlasting::call(&call, &arguments)?)
            });
            done.map_err(|error| self.failure(py, error))
        })
    }

    fn failure(&self, py: Python<'_>, error: PyErr) -> CallError {
        let shown = error.to_string();
        let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
        let told = self.code.bind(py).call_method1(intern!(py, "failure"), (error.into_value(py),));
        if is_interrupt {
            // SAFETY: this thread holds the interpreter. The signal is handled again where the call returns to Python.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        }
        let Ok((variant, message)) = told.and_then(|told| told.extract::<(Option<String>, String)>()) else {
            return CallError::new(FailureKind::Trap, format!("uncaught exception: {shown}"));
        };
        match variant.as_deref() {
            None => CallError::new(FailureKind::Trap, message),
            Some("invalid") => CallError::refused(contract::Error::Invalid(message)),
            Some("not-found") => CallError::refused(contract::Error::NotFound(message)),
            Some("bad-snapshot") => CallError::refused(contract::Error::BadSnapshot(message)),
            Some("denied") => CallError::refused(contract::Error::Denied(message)),
            Some(_) => CallError::refused(contract::Error::Other(message)),
        }
    }
}

impl Unsandboxed for PythonCode {
    fn offers(&self, interface: OptionalInterface) -> bool {
        let method = match interface {
            OptionalInterface::Snapshot | OptionalInterface::ToolSnapshot => "snapshot",
            OptionalInterface::StateKey => "state_key",
            OptionalInterface::Privileged => "privileged",
            OptionalInterface::Oracle => "advise",
            OptionalInterface::Guidance => "guidance",
            OptionalInterface::Render => "render",
            OptionalInterface::FinalView => "final_view",
        };
        self.offered.iter().any(|offered| offered == method)
    }

    fn describe_environment(&self) -> PluginResult<contract::EnvironmentInfo> {
        self.run(("describe",), results::environment_info)
    }

    fn splits(&self, options: &[NamedValue]) -> PluginResult<Vec<contract::SplitInfo>> {
        self.run(("splits", NamedValues(options)), results::splits)
    }

    fn reset(&self, task: &TaskRef, options: &[NamedValue], seed: Seed) -> PluginResult<contract::ResetResult> {
        self.run(("reset", task.split.as_str(), task.index, NamedValues(options), seed.0), results::reset_result)
    }

    fn step(&self, episode: u32, seat: u32, action: Action<'_>) -> PluginResult<contract::StepResult> {
        let (content, call): (&[Part], _) = match action {
            Action::Message(content) | Action::Other(content) => (content, None),
            Action::Call(call) => (&[], Some(called(call))),
        };
        self.run(("step", episode, seat, ContentParts(content), call), results::step_result)
    }

    fn state_key(&self, episode: u32) -> PluginResult<Vec<u8>> {
        self.run(("state_key", episode), results::bytes)
    }

    fn privileged(&self, episode: u32) -> PluginResult<Vec<contract::NamedValue>> {
        self.run(("privileged", episode), results::named_values)
    }

    fn advise(&self, episode: u32, tools: &[String], results: &[String]) -> PluginResult<contract::Advice> {
        self.run(("advise", episode, tools, results), results::advice)
    }

    fn guidance(&self, episode: u32) -> PluginResult<Vec<contract::Part>> {
        self.run(("guidance", episode), results::parts)
    }

    fn render(&self, episode: u32) -> PluginResult<contract::Picture> {
        self.run(("render", episode), results::picture)
    }

    fn describe_tool(&self) -> PluginResult<contract::ToolInfo> {
        self.run(("describe",), results::tool_info)
    }

    fn functions(&self, options: &[NamedValue]) -> PluginResult<Vec<contract::Function>> {
        self.run(("functions", NamedValues(options)), results::functions)
    }

    fn open(&self, setup: Option<&[u8]>, options: &[NamedValue], seed: Seed) -> PluginResult<u32> {
        self.run(("open", setup, NamedValues(options), seed.0), results::handle)
    }

    fn call(&self, session: u32, call: &Call) -> PluginResult<contract::Answer> {
        self.run(("call_function", session, called(call)), results::answer)
    }

    fn final_view(&self, session: u32) -> PluginResult<Vec<contract::NamedValue>> {
        self.run(("final_view", session), results::named_values)
    }

    fn describe_reward(&self) -> PluginResult<contract::RewardInfo> {
        self.run(("describe",), results::reward_info)
    }

    fn score(
        &self,
        group: &[Trajectory<'_>],
        options: &[NamedValue],
        training_step: u64,
    ) -> PluginResult<Vec<Vec<contract::SeatScore>>> {
        self.run(("score", Group(group), NamedValues(options), training_step), results::scores)
    }

    fn snapshot(&self, handle: u32) -> PluginResult<Vec<u8>> {
        self.run(("snapshot", handle), results::bytes)
    }

    fn restore(&self, snapshot: &[u8]) -> PluginResult<u32> {
        self.run(("restore", snapshot), results::handle)
    }

    fn close(&self, handle: u32) -> PluginResult<()> {
        self.run(("close", handle), |_| Ok(()))
    }

    fn forget(&self, handle: u32) {
        // `None` before the interpreter's start and after its end, when the object does not exist. With the ABI of
        // Python 3.10 PyO3 does not see that the interpreter is ending, but no thread of this package runs by then.
        Python::try_attach(|py| self.code.call_method1(py, intern!(py, "forget"), (handle,)));
    }
}
