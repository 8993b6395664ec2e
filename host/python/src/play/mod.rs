//! Whole rollouts against an inference server: the function `play`, and the class `Episode`.

mod episode;
mod folder;
mod interrupt;
mod request;
mod run;

pub use episode::{Episode, PySegment};

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_orchestration::{Progress, Reporter, Silent, Work};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::errors::FunctionFault;
use crate::plugin::PyPlugin;
use crate::runtime::{Host, host};
use interrupt::interruptible;
use request::{Groups, Request};

/// Keeps warnings for the function that ends.
struct Warnings(&'static Host);

impl Reporter for Warnings {
    fn status(&self, _text: &str) {}

    fn warn(&self, text: &str) {
        self.0.warn(text.to_owned());
    }

    fn progress(&self, work: Work) -> Box<dyn Progress> {
        Silent.progress(work)
    }
}

/// Plays groups of `size` episodes under the rules of a run file, whose plugins and server are these, and returns their
/// episodes.
///
/// `tasks` are those of the groups, drawn as in a run by default. `interrupted` is asked ten times in a second.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
#[pyo3(signature = (plugins, file, *, groups, size, temperature, tasks=None, out=None, interrupted=None))]
pub fn play(
    py: Python<'_>,
    plugins: Vec<Py<PyPlugin>>,
    file: &Bound<'_, PyAny>,
    groups: u32,
    size: u32,
    temperature: f32,
    tasks: Option<Vec<u64>>,
    out: Option<PathBuf>,
    interrupted: Option<Py<PyAny>>,
) -> PyResult<Vec<Episode>> {
    let host = host()?;
    let request = Request::new(plugins, file, Groups::new(groups, size, temperature, tasks)?, out)?;
    let system: Option<Arc<str>> = request.file.policy.system.as_deref().map(Arc::from);
    let reporter: Arc<dyn Reporter> = Arc::new(Warnings(host));
    let classes = request.classes.clone();
    let played = interruptible(py, host, interrupted, || run::play(request, host, reporter));
    if played.is_err() {
        // Their episodes have ended, but code that runs goes on, and tasks that run may still begin a call.
        classes.iter().try_for_each(|class| class.end(py))?;
    }
    for warning in host.take_warnings() {
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &std::ffi::CString::new(warning)?, 1)?;
    }
    let played = played?.map_err(FunctionFault::Play)?;
    Ok(played.into_iter().map(|record| Episode::new(record, system.clone())).collect())
}
