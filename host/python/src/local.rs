//! What stand-ins of plugins share with plugins: seeds, the drawing of tasks, and the reading of completions.

use gymkhana_record::{Seed, Turn};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert::{from_json, from_named};
use crate::environment::task::drawn_index;
use crate::errors::Fault;
use crate::reward::attempts;

/// The seed of what a label names below another seed.
#[pyfunction]
pub fn child_seed(seed: u64, label: &str) -> u64 {
    Seed(seed).child(label).0
}

/// Place of the task that an episode of this seed draws; `tasks` is the size of the split, or None without an end.
#[pyfunction]
pub fn drawn_task(seed: u64, tasks: Option<u64>) -> u64 {
    drawn_index(tasks, Seed(seed))
}

/// Completions as the episodes that rewards score: turns in the form of records, privileged fields and views of tools.
#[pyfunction]
pub fn read_attempts<'py>(
    py: Python<'py>,
    completions: &Bound<'py, PyAny>,
    prompts: Option<&Bound<'py, PyAny>>,
    columns: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for attempt in attempts(completions, prompts, columns)? {
        let trajectory = attempt.trajectory();
        let turns: &[Turn] = trajectory.turns;
        let turns = serde_json::to_value(turns).map_err(|error| Fault::Internal(error.to_string()))?;
        let read = PyDict::new(py);
        read.set_item(intern!(py, "turns"), from_json(py, &turns)?)?;
        read.set_item(intern!(py, "privileged"), from_named(py, trajectory.privileged)?)?;
        read.set_item(intern!(py, "views"), from_named(py, trajectory.views)?)?;
        list.append(read)?;
    }
    Ok(list)
}
