//! Environments: their episodes without Python, and the classes that show them to it.

pub mod action;
mod chunk;
pub mod described;
pub mod saved;
mod transition;
pub mod vector;

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use gymkhana_driver::{EpisodeSession, LiveEpisode, NextEpisode};
use gymkhana_record::{EpisodeId, Function, Phase, Seed};
use gymkhana_sandbox::Image;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::convert::{from_json, from_named};
use crate::environment::described::Begin;
use crate::environment::transition::Transition;
use crate::errors::FunctionFault;
use crate::options;
use crate::plugin::PyPlugin;
use crate::process::Owned;
use crate::runtime::host;
use crate::runtime::in_thread;

/// One environment, with Gymnasium's methods and text as observations and actions.
#[pyclass(frozen, module = "gymkhana_rl")]
pub struct Env {
    /// The plugin that it was made from.
    #[pyo3(get)]
    plugin: Py<PyPlugin>,
    /// The tools that were given with it.
    #[pyo3(get)]
    tools: Py<PyTuple>,
    play: Owned<Mutex<Option<EpisodeSession>>>,
}

impl Env {
    /// An environment.
    pub fn new(plugin: Py<PyPlugin>, tools: Py<PyTuple>, play: EpisodeSession) -> Self {
        Self { plugin, tools, play: Owned::new(Mutex::new(Some(play))) }
    }

    /// The state; `None` in it if the environment is closed. It waits for calls of other threads without the interpreter's
    /// lock.
    pub fn lock(&self, py: Python<'_>) -> Result<MutexGuard<'_, Option<EpisodeSession>>, FunctionFault> {
        loop {
            if let Some(guard) = self.try_lock()? {
                return Ok(guard);
            }
            self.wait(py)?;
        }
    }

    /// The state, unless another thread uses it.
    pub fn try_lock(&self) -> Result<Option<MutexGuard<'_, Option<EpisodeSession>>>, FunctionFault> {
        match self.play.get()?.try_lock() {
            Ok(guard) => Ok(Some(guard)),
            Err(TryLockError::Poisoned(guard)) => Ok(Some(guard.into_inner())),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    /// Waits until no other thread uses the state.
    pub fn wait(&self, py: Python<'_>) -> Result<(), FunctionFault> {
        let play = self.play.get()?;
        py.detach(|| drop(play.lock().unwrap_or_else(PoisonError::into_inner)));
        Ok(())
    }
}

/// The environment behind a lock.
pub fn open<'a>(
    guard: &'a mut MutexGuard<'_, Option<EpisodeSession>>,
) -> Result<&'a mut EpisodeSession, FunctionFault> {
    guard.as_mut().ok_or(FunctionFault::Closed("environment"))
}

/// The present episode, ended or not.
pub fn live(play: &mut EpisodeSession) -> Result<&mut LiveEpisode, FunctionFault> {
    Ok(play.live()?)
}

/// Reads the arguments of a reset.
pub fn begin(
    seed: Option<u64>,
    task: Option<u64>,
    split: Option<String>,
    options: Option<&Bound<'_, PyAny>>,
) -> PyResult<Begin> {
    let options = options.filter(|options| !options.is_none());
    let options = options.map(|given| options::read(Some(given))).transpose()?;
    Ok(Begin { next: NextEpisode { split, task, seed: seed.map(Seed) }, options })
}

/// Functions as JSON Schema.
pub fn schemas<'py>(py: Python<'py>, functions: &[Function]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for Function { name, description, parameters, .. } in functions {
        let schema = PyDict::new(py);
        schema.set_item(intern!(py, "name"), name)?;
        schema.set_item(intern!(py, "description"), description)?;
        // The sandbox has checked that it is the JSON text of an object.
        let parameters = serde_json::from_str(parameters).unwrap_or_default();
        schema.set_item(intern!(py, "parameters"), from_json(py, &parameters)?)?;
        list.append(schema)?;
    }
    Ok(list)
}

#[pymethods]
impl Env {
    /// Begins the next episode: (observation, info).
    ///
    /// Without `task`, the task is drawn from the seed; without `seed`, the sequence of the last seed continues.
    #[pyo3(signature = (*, seed=None, task=None, split=None, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<u64>,
        task: Option<u64>,
        split: Option<String>,
        options: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyString>, Bound<'py, PyDict>)> {
        let begin = begin(seed, task, split, options)?;
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        py.detach(|| host.block_on(described::reset(play, begin)))?;
        transition::of_start(py, live(play)?)
    }

    /// Takes a turn: (observation, reward, terminated, truncated, info).
    ///
    /// Raises PluginError if the environment fails, which ends the episode.
    fn step<'py>(&self, py: Python<'py>, action: &Bound<'py, PyAny>) -> PyResult<Transition<'py>> {
        let reply = action::read(action)?;
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let step = py.detach(|| host.block_on(play.step(reply))).map_err(FunctionFault::from)?;
        let live = live(play)?;
        match transition::failure_of(live, &step) {
            Some(failure) => Err(failure.into()),
            None => transition::of_step(py, live, &step),
        }
    }

    /// As `reset`, awaited.
    #[pyo3(signature = (**kwargs))]
    fn areset<'py>(slf: &Bound<'py, Self>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        in_thread(&slf.getattr(intern!(slf.py(), "reset"))?, &PyTuple::empty(slf.py()), kwargs)
    }

    /// As `step`, awaited.
    fn astep<'py>(slf: &Bound<'py, Self>, action: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        in_thread(&slf.getattr(intern!(slf.py(), "step"))?, &PyTuple::new(slf.py(), [action])?, None)
    }

    /// What the environment's expert would do: a text, or calls.
    fn advise<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let advice = py.detach(|| host.block_on(async { Ok::<_, FunctionFault>(play.running()?.advise().await?) }))?;
        action::from_advice(py, advice)
    }

    /// The fields that rewards and teachers see, and policies do not.
    fn privileged<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let fields =
            py.detach(|| host.block_on(async { Ok::<_, FunctionFault>(play.live()?.episode.privileged().await?) }))?;
        from_named(py, &fields)
    }

    /// A picture of the state: text or SVG.
    fn render(&self, py: Python<'_>) -> PyResult<String> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let drawn =
            py.detach(|| host.block_on(async { Ok::<_, FunctionFault>(play.live()?.episode.render().await?) }))?;
        match drawn {
            Image::Text(text) | Image::Svg(text) | Image::Other(text) => Ok(text),
        }
    }

    /// The canonical form of the state: equal bytes for equal states.
    fn state_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let key = py.detach(|| host.block_on(async { Ok::<_, FunctionFault>(play.live()?.state_key().await?) }))?;
        Ok(PyBytes::new(py, &key))
    }

    /// A copy that continues apart, in this process.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let copy = py.detach(|| host.block_on(play.fork())).map_err(FunctionFault::from)?;
        Ok(Self::new(self.plugin.clone_ref(py), self.tools.clone_ref(py), copy))
    }

    /// The environment and its episode as bytes, for `Plugin.restore`.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let bytes = py.detach(|| host.block_on(saved::save(play)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The episode's record, as in the journal of a run.
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.json(py)?;
        let record = serde_json::from_slice(&bytes).map_err(|error| FunctionFault::Internal(error.to_string()))?;
        from_json(py, &record)
    }

    /// The episode's record as canonical JSON.
    fn record_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.json(py)?))
    }

    /// Ends the episode and releases the environment. A closed environment can only be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let ended = self.lock(py)?.take();
        py.detach(|| drop(ended));
        Ok(())
    }

    /// Functions of the seat to move: names, descriptions and JSON Schemas of their parameters.
    #[getter]
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        match play.present() {
            Some(live) => schemas(py, live.episode.data.functions(live.episode.data.seat)),
            None => {
                let environment = std::sync::Arc::clone(play.environment());
                let functions =
                    py.detach(|| host.block_on(environment.first_functions())).map_err(FunctionFault::from)?;
                schemas(py, functions)
            }
        }
    }

    /// Seat to move; 0 before the first episode.
    #[getter]
    fn seat(&self, py: Python<'_>) -> PyResult<u32> {
        let mut guard = self.lock(py)?;
        Ok(open(&mut guard)?.present().map_or(0, |live| live.episode.data.seat))
    }

    /// Names of the seats.
    #[getter]
    fn seats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut guard = self.lock(py)?;
        PyTuple::new(py, &open(&mut guard)?.environment().info().seats)
    }

    /// Whether no episode is running.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.lock(py)?.as_ref().is_some_and(EpisodeSession::is_running))
    }

    /// Options of the environment.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut guard = self.lock(py)?;
        from_named(py, &open(&mut guard)?.environment().bound().options)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let state = self.snapshot(py)?;
        let arguments = (self.plugin.clone_ref(py), state, self.tools.clone_ref(py)).into_pyobject(py)?;
        Ok((py.import("gymkhana_rl._pickle")?.getattr("env")?, arguments))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = match self.try_lock() {
            Err(_) => "made before a fork",
            Ok(None) => "in use",
            Ok(Some(guard)) => match guard.as_ref() {
                None => "closed",
                Some(play) if play.is_running() => "running",
                Some(play) if play.present().is_some() => "ended",
                Some(_) => "not begun",
            },
        };
        format!("<Env {} ({state})>", self.plugin.get().name(py))
    }
}

impl Env {
    fn json(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let host = host()?;
        let mut guard = self.lock(py)?;
        let play = open(&mut guard)?;
        let environment = std::sync::Arc::clone(play.environment());
        let group = u32::try_from(play.sequence().begun().saturating_sub(1)).unwrap_or(u32::MAX);
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member: 0, attempt: 0 };
        let record =
            py.detach(|| host.block_on(async { Ok::<_, FunctionFault>(play.live()?.record(&environment, id).await) }))?;
        Ok(serde_json::to_vec(&record).map_err(|error| FunctionFault::Internal(error.to_string()))?)
    }
}
