//! The runtime of a command, and whether this machine starts the threads that the command needs.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Runtime;

use crate::error::{Classify, CliError, CliResult};

/// Pools with a thread for each processor: the runtime, calls of plugins, compilation, libtorch's operations.
const POOLS: usize = 4;
/// Further threads, such as that of the model, and those of blocking calls.
const MORE: usize = 8;
/// Their stacks, which hold nothing.
const STACK: usize = 64 << 10;

/// A runtime with a thread for each processor.
///
/// # Errors
/// If the system starts fewer threads than the command may need. Libraries would end the process at a later one.
pub fn start() -> CliResult<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    check_threads(POOLS * processors + MORE)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()
}

/// Starts this number of threads at the same time, and ends them.
fn check_threads(number: usize) -> CliResult<()> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let start = |_| {
        let gate = Arc::clone(&gate);
        let wait = move || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
        Builder::new().stack_size(STACK).spawn(wait)
    };
    let mut started: Vec<JoinHandle<()>> = Vec::with_capacity(number);
    let failed = (0..number).map(start).find_map(|thread| match thread {
        Ok(thread) => {
            started.push(thread);
            None
        }
        Err(error) => Some(error),
    });
    drop(closed);
    let count = started.len();
    for thread in started {
        // It cannot panic.
        let _ = thread.join();
    }
    match failed {
        None => Ok(()),
        Some(error) => Err(CliError::user(format!(
            "the system starts {count} threads for this command, which may need {number}: {error}\nhint: raise the limit \
             on processes and threads: `ulimit -u`, or that of the container (pids.max)"
        ))),
    }
}
