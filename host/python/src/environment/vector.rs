//! Batches: `step_many`, and the class `VectorEnv`. Episodes run side by side on the threads of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use gymkhana_driver::Reply;
use gymkhana_record::Seed;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::asynchronous::in_thread;
use crate::batch::spread;
use crate::convert::{array, from_named};
use crate::environment::action;
use crate::environment::env::Env;
use crate::environment::episode::{Begin, Play, Step};
use crate::environment::spec::Spec;
use crate::environment::transition::{self, Outcome, Transition};
use crate::errors::Fault;
use crate::plugin::handle::PyPlugin;
use crate::process::Owned;
use crate::runtime::{Host, host};

/// Largest number of environments of one `VectorEnv`.
const MAX_ENVS: usize = 100_000;

/// An environment with the result of its turn.
type Stepped = (Play, Result<Step, Fault>);

/// Takes a turn in each environment.
fn step_all(host: &Host, turns: Vec<(Play, Reply)>) -> Result<Vec<Stepped>, Fault> {
    spread(host, turns, |(mut play, reply)| {
        Box::pin(async move {
            let step = play.step(reply).await;
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
        return Err(Fault::Option("an environment is given twice; give each once".to_owned()).into());
    }
    let host = host()?;
    let mut guards = lock_all(py, &envs)?;
    if guards.iter().any(|guard| guard.is_none()) {
        return Err(Fault::Closed("environment").into());
    }
    // Environments that are over are refused before any other takes its turn.
    for guard in &mut guards {
        crate::environment::env::open(guard)?.check_running()?;
    }
    let plays = guards.iter_mut().filter_map(|guard| guard.take());
    let turns: Vec<(Play, Reply)> = plays.zip(replies).collect();
    let stepped = py.detach(|| step_all(host, turns))?;
    let mut transitions = Vec::with_capacity(stepped.len());
    for (guard, (play, step)) in guards.iter_mut().zip(stepped) {
        let play = guard.insert(play);
        transitions.push(transition::of_step(py, play.live()?, &step?)?);
    }
    Ok(transitions)
}

/// Locks environments. It never waits while it holds one.
fn lock_all<'a>(py: Python<'_>, envs: &'a [Bound<'_, Env>]) -> Result<Vec<MutexGuard<'a, Option<Play>>>, Fault> {
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

fn check_lengths(envs: usize, actions: usize) -> Result<(), Fault> {
    if envs == actions {
        return Ok(());
    }
    Err(Fault::Option(format!("{envs} environments cannot take {actions} actions; give one action for each")))
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
    plays: Owned<Mutex<Option<Vec<Play>>>>,
}

/// What one environment does in a step.
enum Turn {
    Step(Reply),
    /// The episode is over: the action is ignored.
    Reset,
}

/// What it did.
enum Did {
    Stepped(Step),
    Started,
}

impl VectorEnv {
    /// Environments without episodes.
    ///
    /// # Errors
    /// If the split does not exist, or there are too many.
    pub fn new(
        plugin: Py<PyPlugin>,
        spec: &Arc<Spec>,
        num_envs: usize,
        split: Option<&str>,
        seed: u64,
    ) -> Result<Self, Fault> {
        if !(1..=MAX_ENVS).contains(&num_envs) {
            return Err(Fault::Option(format!("`num_envs` is {num_envs}; give 1 to {MAX_ENVS}")));
        }
        let play =
            |number: u64| Play::new(Arc::clone(spec), split.map(str::to_owned), None, Seed(seed.wrapping_add(number)));
        let plays = (0..num_envs as u64).map(play).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { plugin, num_envs, plays: Owned::new(Mutex::new(Some(plays))) })
    }

    fn lock(&self, py: Python<'_>) -> Result<MutexGuard<'_, Option<Vec<Play>>>, Fault> {
        let plays = self.plays.get()?;
        loop {
            match plays.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(guard)) => return Ok(guard.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    py.detach(|| drop(plays.lock().unwrap_or_else(PoisonError::into_inner)));
                }
            }
        }
    }
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
        let host = host()?;
        let mut guard = self.lock(py)?;
        let plays = guard.take().ok_or(Fault::Closed("environment"))?;
        let jobs: Vec<(Play, Option<Seed>)> = plays.into_iter().zip(seeds).collect();
        let begun = py.detach(|| {
            spread(host, jobs, |(mut play, seed)| {
                Box::pin(async move {
                    let begun = play.reset(Begin { seed, ..Begin::default() }).await;
                    (play, begun)
                })
            })
        })?;
        let (plays, begun): (Vec<_>, Vec<_>) = begun.into_iter().unzip();
        let plays = guard.insert(plays);
        begun.into_iter().collect::<Result<Vec<()>, Fault>>()?;
        let texts = plays.iter_mut().map(|play| Ok(transition::first_text(play.live()?))).collect::<Result<_, Fault>>();
        Ok((texts?, infos(py, plays, &[])?))
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
        let replies = actions.try_iter()?.map(|one| action::read(&one?)).collect::<PyResult<Vec<_>>>()?;
        check_lengths(self.num_envs, replies.len())?;
        let host = host()?;
        let mut guard = self.lock(py)?;
        let plays = guard.as_mut().ok_or(Fault::Closed("environment"))?;
        plays.iter_mut().try_for_each(|play| play.live().map(drop))?;
        let plays = guard.take().unwrap_or_default();
        let turn = |(play, reply): (Play, Reply)| {
            let turn = if play.is_running() { Turn::Step(reply) } else { Turn::Reset };
            (play, turn)
        };
        let jobs: Vec<(Play, Turn)> = plays.into_iter().zip(replies).map(turn).collect();
        let done = py.detach(|| {
            spread(host, jobs, |(mut play, turn)| {
                Box::pin(async move {
                    let did = match turn {
                        Turn::Step(reply) => play.step(reply).await.map(Did::Stepped),
                        Turn::Reset => play.reset(Begin::default()).await.map(|()| Did::Started),
                    };
                    (play, did)
                })
            })
        })?;
        let (plays, did): (Vec<_>, Vec<_>) = done.into_iter().unzip();
        let plays = guard.insert(plays);
        let did = did.into_iter().collect::<Result<Vec<Did>, Fault>>()?;
        let (mut texts, mut rewards) = (Vec::with_capacity(did.len()), Vec::with_capacity(8 * did.len()));
        let (mut terminated, mut truncated) = (Vec::with_capacity(did.len()), Vec::with_capacity(did.len()));
        for (play, did) in plays.iter_mut().zip(&did) {
            let live = play.live()?;
            let outcome = match did {
                Did::Stepped(step) => Outcome::of(live, step),
                Did::Started => Outcome::of_start(live),
            };
            texts.push(outcome.observation);
            rewards.extend_from_slice(&outcome.reward.to_ne_bytes());
            terminated.push(u8::from(outcome.terminated));
            truncated.push(u8::from(outcome.truncated));
        }
        let infos = infos(py, plays, &did)?;
        let flags = |flags: &[u8]| array(py, flags, "bool");
        Ok((texts, array(py, &rewards, "float64")?, flags(&terminated)?, flags(&truncated)?, infos))
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
        let ended = self.lock(py)?.take();
        py.detach(|| drop(ended));
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
        return Err(Fault::Option(message).into());
    }
    Ok(seeds.into_iter().map(|seed| seed.map(Seed)).collect())
}

/// Infos of all environments; `did` is empty after a reset of all.
fn infos<'py>(py: Python<'py>, plays: &mut [Play], did: &[Did]) -> PyResult<Bound<'py, PyDict>> {
    let (seats, extras, failures, tasks) = (PyList::empty(py), PyList::empty(py), PyList::empty(py), PyList::empty(py));
    for (place, play) in plays.iter_mut().enumerate() {
        let live = play.live()?;
        let data = &live.episode.data;
        let first = match did.get(place) {
            Some(Did::Stepped(step)) => step.failures,
            Some(Did::Started) | None => 0,
        };
        seats.append(data.seat)?;
        let shown = if data.extras.is_empty() { None } else { Some(from_named(py, &data.extras)?) };
        extras.append(shown)?;
        failures.append(transition::failed(py, data.failures.get(first..).unwrap_or_default())?)?;
        tasks.append(transition::task(py, live)?)?;
    }
    let infos = PyDict::new(py);
    infos.set_item(intern!(py, "seat"), seats)?;
    infos.set_item(intern!(py, "extras"), extras)?;
    infos.set_item(intern!(py, "failures"), failures)?;
    infos.set_item(intern!(py, "task"), tasks)?;
    Ok(infos)
}
