//! Long calls that a signal or their caller can end.

use std::pin::pin;
use std::time::Duration;

use gymkhana_waits::pulse;
use pyo3::prelude::*;

use crate::errors::FunctionFault;
use crate::runtime::Host;

/// Time between two checks for a signal.
const INTERVAL: Duration = Duration::from_millis(100);

/// Runs a call to its end on this thread, without the interpreter's lock. The call is dropped when a handler of a signal
/// raises, as that of Ctrl-C does, or `interrupted` returns true.
///
/// # Errors
/// What the handler raised, or the interruption.
pub fn interruptible<T: Send, F: Future<Output = T>>(
    py: Python<'_>,
    host: &Host,
    interrupted: Option<Py<PyAny>>,
    call: impl FnOnce() -> F + Send,
) -> PyResult<T> {
    let watched = async move || {
        let mut call = pin!(call());
        loop {
            match pulse(INTERVAL, call.as_mut()).await {
                Some(value) => return Ok(value),
                None => Python::attach(|py| check(py, interrupted.as_ref()))?,
            }
        }
    };
    py.detach(|| host.block_on(watched()))
}

fn check(py: Python<'_>, interrupted: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    match interrupted {
        Some(interrupted) if interrupted.call0(py)?.is_truthy(py)? => Err(FunctionFault::Interrupted.into()),
        _ => Ok(()),
    }
}
