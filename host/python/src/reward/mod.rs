//! The class `Reward`: a reward plugin as the function that trainers call.

mod scoring;
mod trajectory;

use gymkhana_driver::check_options;
use gymkhana_record::{NamedValue, Seed};
use gymkhana_registry::Kind;
use gymkhana_sandbox::RewardInfo;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::convert::from_named;
use crate::environment::described::check_kind;
use crate::errors::{FunctionFault, PluginFailure};
use crate::plugin::PyPlugin;
use crate::process::Owned;
use crate::reward::scoring::{Judge, Scored};
use crate::reward::trajectory::{SeatTrajectory, cell};
use crate::runtime::host;
use crate::runtime::in_thread;

/// A reward with its options.
#[pyclass(frozen, module = "gymkhana_rl")]
pub struct Reward {
    /// The plugin that it was made from.
    #[pyo3(get)]
    plugin: Py<PyPlugin>,
    /// Seed of its random numbers.
    #[pyo3(get)]
    seed: u64,
    given: Vec<NamedValue>,
    name: String,
    components: Vec<String>,
    judge: Owned<Judge>,
}

impl Reward {
    /// Opens a reward.
    ///
    /// # Errors
    /// If the plugin is not a reward, does not know an option, or fails.
    pub fn open(plugin: &Bound<'_, PyPlugin>, seed: u64, given: Vec<NamedValue>) -> PyResult<Self> {
        let (host, loaded) = (host()?, plugin.get().loaded()?.clone());
        check_kind(&loaded, Kind::Reward)?;
        let info = plugin.py().detach(|| host.block_on(loaded.reward_info()));
        let info = info.map_err(|error| FunctionFault::from(PluginFailure::of(loaded.name(), error)))?;
        let RewardInfo { components, options: declared, .. } = &*info;
        let options = check_options(loaded.name(), given.clone(), declared).map_err(FunctionFault::from)?;
        Ok(Self {
            plugin: plugin.clone().unbind(),
            seed,
            given,
            name: loaded.name().to_owned(),
            components: components.iter().map(|component| component.name.clone()).collect(),
            judge: Owned::new(Judge { plugin: loaded, options: options.into(), seed: Seed(seed) }),
        })
    }
}

/// Reads completions with their prompts and columns.
///
/// # Errors
/// If a completion or a column cannot be read, or there is not one prompt for each.
fn attempts(
    completions: &Bound<'_, PyAny>,
    prompts: Option<&Bound<'_, PyAny>>,
    columns: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<SeatTrajectory>> {
    let rows = completions.len()?;
    let prompts = prompts.filter(|prompts| !prompts.is_none());
    if let Some(prompts) = prompts.map(|prompts| prompts.len()).transpose()?.filter(|prompts| *prompts != rows) {
        return Err(
            FunctionFault::Option(format!("{rows} completions have {prompts} prompts; give one for each")).into()
        );
    }
    let mut read = Vec::with_capacity(rows);
    for (row, completion) in completions.try_iter()?.enumerate() {
        let prompt = prompts.map(|prompts| prompts.get_item(row)).transpose()?;
        read.push(SeatTrajectory::read(prompt.as_ref(), &completion?)?);
    }
    let Some(columns) = columns.filter(|columns| !columns.is_none()) else { return Ok(read) };
    let Ok(columns) = columns.cast::<PyMapping>() else {
        return Err(FunctionFault::Option("`columns` is not a mapping".to_owned()).into());
    };
    for column in columns.items()?.iter() {
        let (name, column): (String, Bound<'_, PyAny>) = column.extract()?;
        for (row, attempt) in read.iter_mut().enumerate() {
            if let Some(field) = cell(&name, &column, rows, row)? {
                attempt.add(field);
            }
        }
    }
    Ok(read)
}

/// Totals; `None` where there is no score.
fn totals(scores: Vec<Scored>) -> Vec<Option<f64>> {
    scores.into_iter().map(|score| score.ok().map(|score| score.total)).collect()
}

#[pymethods]
impl Reward {
    /// Scores completions, each alone: a list of totals, with None where there is no score.
    ///
    /// Prompts and completions are texts or lists of messages. Columns are the task's privileged fields and, with a dot in
    /// their names, the final views of tools.
    #[pyo3(signature = (prompts=None, completions=None, **columns))]
    fn __call__(
        &self,
        py: Python<'_>,
        prompts: Option<&Bound<'_, PyAny>>,
        completions: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Option<f64>>> {
        let missing = || FunctionFault::Option("a reward needs `completions`".to_owned());
        let completions = completions.ok_or_else(missing)?;
        let attempts = attempts(completions, prompts, columns.map(|columns| columns.as_any()))?;
        let (host, judge) = (host()?, self.judge.get()?);
        Ok(totals(py.detach(|| judge.each(host, attempts))?))
    }

    /// Scores completions, each alone: a list of Score with the total, the components and the failure.
    #[pyo3(signature = (completions, prompts=None, *, columns=None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        completions: &Bound<'py, PyAny>,
        prompts: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        static SCORE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let attempts = attempts(completions, prompts, columns)?;
        let (host, judge) = (host()?, self.judge.get()?);
        let scores = py.detach(|| judge.each(host, attempts))?;
        let class = SCORE.import(py, "gymkhana_rl._types", "Score")?;
        let list = PyList::empty(py);
        for scored in scores {
            let components = PyDict::new(py);
            let (total, failure) = match scored {
                Ok(score) => {
                    for component in score.components {
                        components.set_item(component.name, component.value)?;
                    }
                    (Some(score.total), None)
                }
                Err(why) => (None, Some(why)),
            };
            list.append(class.call1((total, components, failure))?)?;
        }
        Ok(list)
    }

    /// As `score`, awaited.
    #[pyo3(signature = (*args, **kwargs))]
    fn ascore<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        in_thread(&slf.getattr(intern!(slf.py(), "score"))?, args, kwargs)
    }

    /// Scores completions of one prompt together, for rewards that compare them. Columns that are not lists are fields of
    /// the task.
    #[pyo3(signature = (prompt, completions, **columns))]
    fn group<'py>(
        &self,
        py: Python<'py>,
        prompt: &Bound<'py, PyAny>,
        completions: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Option<f64>>> {
        let rows = completions.len()?;
        let repeated = |value: Bound<'py, PyAny>| PyList::new(py, std::iter::repeat_n(value, rows));
        let prompts = repeated(prompt.clone())?;
        let spread = PyDict::new(py);
        for (name, value) in columns.into_iter().flat_map(|columns| columns.iter()) {
            let is_scalar = value.is_instance_of::<PyString>() || value.len().is_err();
            spread.set_item(name, if is_scalar { repeated(value)?.into_any() } else { value })?;
        }
        let attempts = attempts(completions, Some(prompts.as_any()), Some(spread.as_any()))?;
        let (host, judge) = (host()?, self.judge.get()?);
        Ok(totals(py.detach(|| host.block_on(judge.group(&attempts)))))
    }

    /// Names of the components of each score.
    #[getter]
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.components)
    }

    /// Options of the reward.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        from_named(py, &self.given)
    }

    /// Name of the plugin, as trainers name the reward in their logs.
    #[getter]
    fn __name__(&self) -> &str {
        &self.name
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = (self.plugin.clone_ref(py), self.seed, self.options(py)?).into_pyobject(py)?;
        Ok((py.import("gymkhana_rl._pickle")?.getattr("reward")?, arguments))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<Reward {}>", self.plugin.get().name(py))
    }
}
