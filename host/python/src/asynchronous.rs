//! The `async` twins: the same calls on threads of the package, awaited by the caller's loop.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

/// An awaitable of `method(*args, **kwargs)`, which runs on another thread.
pub fn in_thread<'py>(
    method: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    static IN_THREAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let in_thread = IN_THREAD.import(method.py(), "gymkhana_rl._async", "in_thread")?;
    in_thread.call1((method, args, kwargs))
}
