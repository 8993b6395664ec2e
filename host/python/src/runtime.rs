//! The engine, the threads and the ticker of this process, made at first use and again after a fork; and the `async`
//! twins of methods, which run on other threads.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gymkhana_orchestration::code_cache;
use gymkhana_sandbox::{Limits, ProcessOwner, Sandbox, SandboxConfig};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::address_space;
use crate::errors::{self, FunctionFault};
use crate::process::generation;

/// Time for which the start of a plugin waits for a place. The program that waits is often the one that holds them all.
const WAIT: Duration = Duration::from_secs(5);

/// Time for which the interpreter's end waits for guests.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// What all objects of a process share. Never dropped: objects of an ending interpreter may outlive it.
pub struct Host {
    generation: u64,
    /// `None` once the interpreter ends.
    runtime: Mutex<Option<Runtime>>,
    /// Whether the interpreter ends.
    ends: AtomicBool,
    handle: Handle,
    /// Number of threads that run batches. To ask the system takes as long as some steps.
    threads: usize,
    /// Sandboxes, by whether guests count fuel.
    sandboxes: Mutex<HashMap<bool, Sandbox>>,
    /// Warnings that were not shown yet.
    warnings: Mutex<Vec<String>>,
}

/// The host of this process or, in a forked child that has not made its own, of the parent.
static HOST: AtomicPtr<Host> = AtomicPtr::new(null_mut());

/// The host of this process.
///
/// # Errors
/// If the system starts no threads, the address space is too small, or the interpreter is shutting down.
pub fn host() -> Result<&'static Host, FunctionFault> {
    let found = HOST.load(Ordering::Acquire);
    // SAFETY: a host is leaked when it is stored.
    if let Some(host) = unsafe { found.as_ref() }.filter(|host| host.generation == generation()) {
        return if host.ends.load(Ordering::Acquire) { Err(FunctionFault::Ending) } else { Ok(host) };
    }
    let made = Box::into_raw(Box::new(Host::new()?));
    match HOST.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it is leaked from here on.
        Ok(_) => Ok(unsafe { &*made }),
        Err(_) => {
            // Another thread was faster.
            // SAFETY: `made` was stored nowhere.
            drop(unsafe { Box::from_raw(made) });
            host()
        }
    }
}

impl Host {
    fn new() -> Result<Self, FunctionFault> {
        address_space::check()?;
        let runtime = Builder::new_multi_thread().enable_all().thread_name("gymkhana").build();
        let runtime =
            runtime.map_err(|error| FunctionFault::Internal(format!("no threads can be started: {error}")))?;
        Ok(Self {
            generation: generation(),
            handle: runtime.handle().clone(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            runtime: Mutex::new(Some(runtime)),
            ends: AtomicBool::new(false),
            sandboxes: Mutex::default(),
            warnings: Mutex::default(),
        })
    }

    /// Runs a call to its end on this thread. The caller has released the interpreter's lock.
    pub fn block_on<T>(&self, call: impl Future<Output = T>) -> T {
        self.handle.block_on(call)
    }

    /// Handle for tasks of batches.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Number of threads that run batches.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A sandbox with these limits. All with or all without fuel share one engine.
    ///
    /// # Errors
    /// If the sandbox cannot be set up.
    pub fn sandbox(&self, limits: Limits) -> Result<Sandbox, FunctionFault> {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sandboxes.get(&limits.count_fuel());
        if let Some(sandbox) = known.and_then(|sandbox| sandbox.with_limits(limits)) {
            return Ok(sandbox);
        }
        let config = SandboxConfig {
            limits,
            owner: ProcessOwner::Foreign,
            // The compiler's threads are those of the first process.
            compile_in_parallel: self.generation == 0,
            wait: WAIT,
            ..SandboxConfig::default()
        };
        let sandbox = code_cache::sandbox(config, |text| self.warn(text.to_owned()))?;
        sandboxes.insert(limits.count_fuel(), sandbox.clone());
        Ok(sandbox)
    }

    /// Keeps a warning for the next function that can show it.
    pub fn warn(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// The warnings since they were last taken.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ends the threads of this process. Runs at the interpreter's end.
///
/// # Errors
/// If the module of the exceptions cannot be imported.
#[pyfunction]
pub fn shut_down(py: Python<'_>) -> PyResult<()> {
    errors::module(py)?;
    // SAFETY: a host is leaked when it is stored.
    let host = unsafe { HOST.load(Ordering::Acquire).as_ref() };
    let Some(host) = host.filter(|host| host.generation == generation()) else { return Ok(()) };
    host.ends.store(true, Ordering::Release);
    py.detach(|| {
        let runtime = host.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Engines end with their last plugin; their tickers end with them.
        host.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(LAST_WAIT);
        }
    });
    Ok(())
}

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
