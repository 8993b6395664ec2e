//! Calls of Python code that may still run when the interpreter ends.
//!
//! Before Python 3.14 the interpreter ends a thread that wants its lock back after the end, by unwinding the thread's
//! stack. Frames of Rust may be unwound only across functions declared for it; elsewhere the process aborts.

use std::thread;
use std::time::Duration;

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[allow(clashing_extern_declarations, reason = "PyO3 declares it as a function that does not unwind")]
unsafe extern "C-unwind" {
    fn PyObject_CallObject(callable: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject;
}

/// Stops its thread for good when the thread's stack is unwound.
struct StopOnUnwind;

impl Drop for StopOnUnwind {
    fn drop(&mut self) {
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Calls `callable(*arguments)`. If the interpreter ends meanwhile, the thread stops here until the process ends.
///
/// # Errors
/// What the code raises.
pub fn call<'py>(callable: &Bound<'py, PyAny>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let parked = StopOnUnwind;
    // SAFETY: both objects live during the call, and this thread holds the interpreter.
    let given = unsafe { PyObject_CallObject(callable.as_ptr(), arguments.as_ptr()) };
    std::mem::forget(parked);
    // SAFETY: the result is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(callable.py(), given) }
}
