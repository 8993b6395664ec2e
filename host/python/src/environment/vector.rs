//! Batches: `step_many`, and the class `VectorEnv`. Episodes run side by side on the threads of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use gymkhana_driver::{DescribedEnvironment, EpisodeSession, NextEpisode, Reply, TurnResult};
use gymkhana_record::Seed;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::batch::{MIN_JOBS, spread};
use crate::convert::{array, from_named};
use crate::environment::action;
use crate::environment::chunk::{self, ChunkResult, EnvironmentTurn};
use crate::environment::transition::{self, Transition};
use crate::environment::{Env, live};
use crate::errors::FunctionFault;
use crate::plugin::PyPlugin;
use crate::process::Owned;
use crate::runtime::in_thread;
use crate::runtime::{Host, host};

/// Largest number of environments of one `VectorEnv`.
const MAX_ENVS: usize = 100_000;

/// An environment with the result of its turn.
type Stepped = (EpisodeSession, Result<TurnResult, FunctionFault>);

/// Takes a turn in each environment.
fn step_all(host: &Host, turns: Vec<(EpisodeSession, Reply)>) -> Result<Vec<Stepped>, FunctionFault> {
    spread(host, turns, MIN_JOBS, |(mut play, reply)| {
        Box::pin(async move {
            let step = play.step(reply).await.map_err(FunctionFault::from);
            (play, step)
        })
    })
}

/// Takes a turn in each environment, side by side: a list of what `Env.step` returns.
///
/// An environment that fails is reported as truncated, with the failure in its info.
#[pyfunction]
pub fn step_many<'py>(
    py: Python<'py>,
    envs: &Bound<'py, PyAny>,
    actions: &Bound<'py, PyAny>,
) -> PyResult<Vec<Transition<'py>>> {
    let envs: Vec<Bound<'py, Env>> =
        envs.try_iter()?.map(|env| Ok(env?.cast_into::<Env>()?)).collect::<PyResult<_>>()?;
    let replies = actions.try_iter()?.map(|one| action::read(&one?)).collect::<PyResult<Vec<_>>>()?;
    check_lengths(envs.len(), replies.len())?;
    let twice = (1..envs.len()).any(|place| envs[..place].iter().any(|other| other.is(&envs[place])));
    if twice {
        return Err(FunctionFault::Option("an environment is given twice; give each once".to_owned()).into());
    }
    let host = host()?;
    let mut guards = lock_all(py, &envs)?;
    if guards.iter().any(|guard| guard.is_none()) {
        return Err(FunctionFault::Closed("environment").into());
    }
    // Environments that are over are refused before any other takes its turn.
    for guard in &mut guards {
        crate::environment::open(guard)?.running().map_err(FunctionFault::from)?;
    }
    let plays = guards.iter_mut().filter_map(|guard| guard.take());
    let turns: Vec<(EpisodeSession, Reply)> = plays.zip(replies).collect();
    let stepped = py.detach(|| step_all(host, turns))?;
    let mut transitions = Vec::with_capacity(stepped.len());
    for (guard, (play, step)) in guards.iter_mut().zip(stepped) {
        let play = guard.insert(play);
        transitions.push(transition::of_step(py, live(play)?, &step?)?);
    }
    Ok(transitions)
}

/// Locks environments. It never waits while it holds one.
fn lock_all<'a>(
    py: Python<'_>,
    envs: &'a [Bound<'_, Env>],
) -> Result<Vec<MutexGuard<'a, Option<EpisodeSession>>>, FunctionFault> {
    loop {
        let mut guards = Vec::with_capacity(envs.len());
        let mut busy = None;
        for env in envs {
            match env.get().try_lock()? {
                Some(guard) => guards.push(guard),
                None => {
                    busy = Some(env);
                    break;
                }
            }
        }
        let Some(busy) = busy else { return Ok(guards) };
        drop(guards);
        busy.get().wait(py)?;
    }
}

fn check_lengths(envs: usize, actions: usize) -> Result<(), FunctionFault> {
    if envs == actions {
        return Ok(());
    }
    Err(FunctionFault::Option(format!("{envs} environments cannot take {actions} actions; give one action for each")))
}

/// Environments that one call steps, with Gymnasium's vector methods and next-step autoreset.
#[pyclass(frozen, module = "gymkhana_rl")]
pub struct VectorEnv {
    /// The plugin that it was made from.
    #[pyo3(get)]
    plugin: Py<PyPlugin>,
    /// Number of environments.
    #[pyo3(get)]
    num_envs: usize,
    parts: Owned<Mutex<Option<OpenVector>>>,
}

/// What is there until it is closed.
struct OpenVector {
    /// Environments, in chunks that threads take turns of.
    chunks: Vec<Vec<EpisodeSession>>,
    /// Task of each environment's episode; `None` before the first one.
    tasks: Vec<Option<Py<PyDict>>>,
}

impl VectorEnv {
    /// Environments without episodes.
    ///
    /// # Errors
    /// If the split does not exist, or there are too many.
    pub fn new(
        plugin: Py<PyPlugin>,
        environment: &Arc<DescribedEnvironment>,
        num_envs: usize,
        split: Option<&str>,
        seed: u64,
    ) -> Result<Self, FunctionFault> {
        if !(1..=MAX_ENVS).contains(&num_envs) {
            return Err(FunctionFault::Option(format!("`num_envs` is {num_envs}; give 1 to {MAX_ENVS}")));
        }
        let defaults = NextEpisode { split: split.map(str::to_owned), ..NextEpisode::default() };
        let play = |number: u64| {
            EpisodeSession::new(Arc::clone(environment), Seed(seed.wrapping_add(number)), defaults.clone())
        };
        let plays = (0..num_envs as u64).map(play).collect::<Result<Vec<_>, _>>()?;
        let parts = OpenVector { chunks: chunk::divide(host()?, plays), tasks: (0..num_envs).map(|_| None).collect() };
        Ok(Self { plugin, num_envs, parts: Owned::new(Mutex::new(Some(parts))) })
    }

    fn lock(&self, py: Python<'_>) -> Result<MutexGuard<'_, Option<OpenVector>>, FunctionFault> {
        let parts = self.parts.get()?;
        loop {
            match parts.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(guard)) => return Ok(guard.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    py.detach(|| drop(parts.lock().unwrap_or_else(PoisonError::into_inner)));
                }
            }
        }
    }
}

/// Takes a turn in each environment: what they show, and the infos.
fn take_turns<'py>(
    py: Python<'py>,
    guard: &mut MutexGuard<'_, Option<OpenVector>>,
    turns: Vec<EnvironmentTurn>,
) -> PyResult<(Vec<ChunkResult>, Bound<'py, PyDict>)> {
    let host = host()?;
    let OpenVector { chunks, tasks } = guard.take().ok_or(FunctionFault::Closed("environment"))?;
    let done = py.detach(|| chunk::take_all(host, chunks, turns))?;
    let (chunks, seen): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    let parts = guard.insert(OpenVector { chunks, tasks });
    let seen = seen.into_iter().flatten().collect::<Result<Vec<ChunkResult>, FunctionFault>>()?;
    let infos = infos(py, parts, &seen)?;
    Ok((seen, infos))
}

#[pymethods]
impl VectorEnv {
    /// Begins an episode in each environment: (observations, infos). A seed s gives number i the seed s + i.
    #[pyo3(signature = (*, seed=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyDict>)> {
        let seeds = seeds(seed, self.num_envs)?;
        let mut guard = self.lock(py)?;
        let (seen, infos) = take_turns(py, &mut guard, seeds.into_iter().map(EnvironmentTurn::Begin).collect())?;
        Ok((seen.into_iter().map(|seen| seen.outcome.observation).collect(), infos))
    }

    /// Takes a turn in each environment: (observations, rewards, terminated, truncated, infos).
    ///
    /// An environment whose episode ended begins the next one instead. One that fails is reported as truncated, with the
    /// failure in `infos`.
    #[allow(clippy::type_complexity, reason = "Gymnasium's five values")]
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let turns: Vec<EnvironmentTurn> =
            actions.try_iter()?.map(|one| Ok(EnvironmentTurn::Step(action::read(&one?)?))).collect::<PyResult<_>>()?;
        check_lengths(self.num_envs, turns.len())?;
        let mut guard = self.lock(py)?;
        let parts = guard.as_mut().ok_or(FunctionFault::Closed("environment"))?;
        parts.chunks.iter_mut().flatten().try_for_each(|play| play.live().map(drop)).map_err(FunctionFault::from)?;
        let (seen, infos) = take_turns(py, &mut guard, turns)?;
        let rewards: Vec<u8> = seen.iter().flat_map(|seen| seen.outcome.reward.to_ne_bytes()).collect();
        let flags = |flag: fn(&ChunkResult) -> bool| {
            let flags: Vec<u8> = seen.iter().map(|seen| u8::from(flag(seen))).collect();
            array(py, &flags, "bool")
        };
        let (terminated, truncated) = (flags(|seen| seen.outcome.terminated)?, flags(|seen| seen.outcome.truncated)?);
        let texts = seen.into_iter().map(|seen| seen.outcome.observation).collect();
        Ok((texts, array(py, &rewards, "float64")?, terminated, truncated, infos))
    }

    /// As `reset`, awaited.
    #[pyo3(signature = (**kwargs))]
    fn areset<'py>(slf: &Bound<'py, Self>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        in_thread(&slf.getattr(intern!(slf.py(), "reset"))?, &PyTuple::empty(slf.py()), kwargs)
    }

    /// As `step`, awaited.
    fn astep<'py>(slf: &Bound<'py, Self>, actions: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        in_thread(&slf.getattr(intern!(slf.py(), "step"))?, &PyTuple::new(slf.py(), [actions])?, None)
    }

    /// Ends all episodes and releases the environments.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(OpenVector { chunks, .. }) = self.lock(py)?.take() {
            py.detach(|| drop(chunks));
        }
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.num_envs
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<VectorEnv {} x {}>", self.num_envs, self.plugin.get().name(py))
    }
}

/// Seeds of a reset: none, one for the first environment, or one for each.
fn seeds(seed: Option<&Bound<'_, PyAny>>, num_envs: usize) -> PyResult<Vec<Option<Seed>>> {
    let Some(seed) = seed.filter(|seed| !seed.is_none()) else { return Ok(vec![None; num_envs]) };
    if let Ok(first) = seed.extract::<u64>() {
        return Ok((0..num_envs as u64).map(|number| Some(Seed(first.wrapping_add(number)))).collect());
    }
    let seeds = seed.extract::<Vec<Option<u64>>>()?;
    if seeds.len() != num_envs {
        let message = format!("`seed` has {} numbers for {num_envs} environments", seeds.len());
        return Err(FunctionFault::Option(message).into());
    }
    Ok(seeds.into_iter().map(|seed| seed.map(Seed)).collect())
}

/// Infos of all environments. An environment is looked at only where something changed.
fn infos<'py>(py: Python<'py>, parts: &mut OpenVector, seen: &[ChunkResult]) -> PyResult<Bound<'py, PyDict>> {
    let (extras, failures, tasks) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
    let plays = parts.chunks.iter_mut().flatten();
    for ((play, known), seen) in plays.zip(&mut parts.tasks).zip(seen) {
        if seen.began {
            *known = Some(transition::task(py, live(play)?)?.unbind());
        }
        let shown = if seen.has_extras { Some(from_named(py, &live(play)?.episode.data.extras)?) } else { None };
        extras.append(shown)?;
        failures.append(match seen.first_failure {
            Some(first) => transition::failed(py, &live(play)?.episode.data.failures[first..])?,
            None => PyList::empty(py),
        })?;
        // A copy, since the program may change what it gets.
        tasks.append(known.as_ref().map(|task| task.bind(py).copy()).transpose()?)?;
    }
    let infos = PyDict::new(py);
    infos.set_item(intern!(py, "seat"), PyList::new(py, seen.iter().map(|seen| seen.seat))?)?;
    infos.set_item(intern!(py, "extras"), extras)?;
    infos.set_item(intern!(py, "failures"), failures)?;
    infos.set_item(intern!(py, "task"), tasks)?;
    Ok(infos)
}
