//! The class `Tool`: a session of a tool plugin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_driver::{BoundPlugin, RewardTools, Tool, ToolCaller, ToolSet, check_options};
use gymkhana_nearest::did_you_mean;
use gymkhana_record::{Call, FailureKind, Function, NamedValue, Reply, Seed, text_of};
use gymkhana_registry::Kind;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::convert::from_named;
use crate::environment::action::arguments_text;
use crate::environment::described::check_kind;
use crate::environment::schemas;
use crate::errors::{FunctionFault, PluginFailure};
use crate::plugin::PyPlugin;
use crate::process::Owned;
use crate::runtime::host;
use crate::runtime::in_thread;

/// One session of a tool. A session that fails begins again without its state, as in an episode.
#[pyclass(name = "Tool", frozen, module = "gymkhana_rl", weakref)]
pub struct PyTool {
    /// The plugin that it was made from.
    #[pyo3(get)]
    plugin: Py<PyPlugin>,
    /// Seed of the session.
    #[pyo3(get)]
    seed: u64,
    given: Vec<NamedValue>,
    calls: AtomicU64,
    core: Owned<Core>,
}

struct Core {
    bound: BoundPlugin,
    functions: Vec<Function>,
    /// `None` after the end.
    session: Mutex<Option<Arc<RewardTools>>>,
}

impl PyTool {
    /// Opens a tool; its session begins with the first call.
    ///
    /// # Errors
    /// If the plugin is not a tool, does not know an option, or fails.
    pub fn open(plugin: &Bound<'_, PyPlugin>, seed: u64, given: Vec<NamedValue>) -> PyResult<Self> {
        let (host, loaded) = (host()?, plugin.get().loaded()?.clone());
        check_kind(&loaded, Kind::Tool)?;
        let options = given.clone();
        let core = plugin.py().detach(|| {
            host.block_on(async {
                let failed = |error| PluginFailure::of(loaded.name(), error);
                let info = loaded.tool_info().await.map_err(failed)?;
                let options = check_options(loaded.name(), options, &info.options)?;
                let bound = BoundPlugin { plugin: loaded.clone(), options };
                let described = Tool::describe(bound.clone()).await.map_err(failed)?;
                let functions = described.functions.clone();
                let mut set = ToolSet::default();
                set.add(described).map_err(|same| FunctionFault::Option(same.to_string()))?;
                // The seeds are those of an episode's tools.
                let session = RewardTools::new(&Arc::new(set), u32::MAX, Seed(seed).child("tool"), &[]);
                Ok::<_, FunctionFault>(Core { bound, functions, session: Mutex::new(Some(Arc::new(session))) })
            })
        })?;
        let plugin = plugin.clone().unbind();
        Ok(Self { plugin, seed, given, calls: AtomicU64::new(0), core: Owned::new(core) })
    }

    /// The tool with its options, for an environment.
    ///
    /// # Errors
    /// In a forked child of the process that opened it.
    pub fn bound(&self) -> Result<BoundPlugin, FunctionFault> {
        Ok(self.core.get()?.bound.clone())
    }
}

#[pymethods]
impl PyTool {
    /// Functions: names, descriptions and JSON Schemas of their parameters.
    #[getter]
    fn schemas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        schemas(py, &self.core.get()?.functions)
    }

    /// Functions as Python functions, by name, with annotations and docstrings. Each returns the answer's text.
    #[getter]
    fn functions<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static FUNCTIONS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        FUNCTIONS.import(slf.py(), "gymkhana_rl._functions", "functions_of")?.call1((slf,))
    }

    /// Options of the tool.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        from_named(py, &self.given)
    }

    /// Calls a function: a ToolAnswer with `content` and `failed`.
    ///
    /// A call that the tool refuses, and one that ends its session, is an answer with `failed` set.
    fn call<'py>(&self, py: Python<'py>, name: String, arguments: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let arguments = arguments_text(arguments)?;
        let host = host()?;
        let Core { bound, functions, session } = self.core.get()?;
        if !functions.iter().any(|function| function.name == name) {
            let known = || functions.iter().map(|function| function.name.as_str());
            let listed = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let (tool, near) = (bound.plugin.name(), did_you_mean(&name, known()));
            let message = format!("tool `{tool}` has no function `{name}`\nhint: it has {listed}{near}");
            return Err(FunctionFault::Option(message).into());
        }
        let session = session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = session.ok_or(FunctionFault::Closed("tool"))?;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = Call { id: format!("call-{number}"), name, arguments };
        let failed = |message: String| {
            let plugin = bound.plugin.name().to_owned();
            FunctionFault::Plugin(PluginFailure { plugin, kind: FailureKind::Fault, message })
        };
        let reply = py.detach(|| host.block_on(session.call(&call))).map_err(|error| failed(error.0))?;
        let (content, failed) = match reply {
            Reply::Tool(answer) => (text_of(&answer.content), answer.failed),
            Reply::Refused(refused) => (format!("{refused:?}"), true),
            Reply::Model(_) | Reply::Http(_) => return Err(failed("it gave another kind of answer".to_owned()).into()),
        };
        static ANSWER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        ANSWER.import(py, "gymkhana_rl._types", "ToolAnswer")?.call1((content, failed))
    }

    /// As `call`, awaited.
    fn acall<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let method = slf.getattr(intern!(slf.py(), "call"))?;
        in_thread(&method, &PyTuple::new(slf.py(), [name, arguments])?, None)
    }

    /// Ends the session. A closed tool can only be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.core.get()?.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(session));
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        if self.calls.load(Ordering::Relaxed) > 0 {
            let why =
                "a tool that was called cannot be pickled: its session has a state; pickle it before the first call";
            return Err(PyTypeError::new_err(why));
        }
        let arguments = (self.plugin.clone_ref(py), self.seed, self.options(py)?).into_pyobject(py)?;
        Ok((py.import("gymkhana_rl._pickle")?.getattr("tool")?, arguments))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<Tool {}>", self.plugin.get().name(py))
    }
}
