//! Threads of guests: a runtime of its own for episodes, apart from the threads that wait for timers and sockets.
//!
//! A guest yields at every tick at the earliest, and a single instruction such as `memory.fill` can take tens of
//! milliseconds. A runtime that ran guests and also waited for timers and sockets would serve these late.

use std::future::Future;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

/// Name of each thread, as the system shows it.
pub const GUEST_THREAD_NAME: &str = "guests";

/// Polls of guests after which a thread looks at its timers, and at the tasks that other threads woke. The default of 61
/// is 61 ms if every poll lasts a tick.
const POLLS_BETWEEN_CHECKS: u32 = 1;

/// Threads that run guests. Dropping it cancels their tasks and does not wait for them.
#[derive(Debug)]
pub struct GuestThreads {
    /// Taken when dropped.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl GuestThreads {
    /// Starts one thread per core.
    ///
    /// # Errors
    /// If the system starts no more threads.
    pub fn start() -> std::io::Result<Self> {
        Self::with(&mut Builder::new_multi_thread())
    }

    /// Starts this number of threads, at least 1.
    ///
    /// # Errors
    /// As [`GuestThreads::start`].
    pub fn start_with(threads: usize) -> std::io::Result<Self> {
        Self::with(Builder::new_multi_thread().worker_threads(threads.max(1)))
    }

    fn with(builder: &mut Builder) -> std::io::Result<Self> {
        let runtime = builder
            .enable_time()
            .thread_name(GUEST_THREAD_NAME)
            .event_interval(POLLS_BETWEEN_CHECKS)
            .global_queue_interval(POLLS_BETWEEN_CHECKS)
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Handle for tasks that call guests. The threads serve timers but no sockets.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        // Waiting is not allowed in a task, and a guest may have most of its time budget left.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a task on another runtime; dropping the future cancels the task.
pub async fn run_on<T: Send + 'static>(runtime: &Handle, task: impl Future<Output = T> + Send + 'static) -> T {
    let mut tasks = JoinSet::new();
    tasks.spawn_on(task, runtime);
    match tasks.join_next().await {
        Some(Ok(output)) => output,
        Some(Err(ended)) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        // The runtime shuts down, and with it the program.
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn thread_name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn tasks_run_on_the_runtime_of_the_handle() {
        let guests = GuestThreads::start_with(1).unwrap();
        let here = Handle::current();
        let (own, back) =
            run_on(guests.handle(), async move { (thread_name(), run_on(&here, async { thread_name() }).await) }).await;
        assert_eq!(own.as_deref(), Some(GUEST_THREAD_NAME));
        assert_eq!(back, thread_name(), "a task that returns to this runtime leaves the guests' threads");
    }

    #[tokio::test]
    async fn a_dropped_future_cancels_its_task() {
        let guests = GuestThreads::start_with(1).unwrap();
        let (sender, ended) = tokio::sync::oneshot::channel::<()>();
        let task = run_on(guests.handle(), async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), task).await.is_err());
        ended.await.expect_err("the task and its sender were dropped");
    }

    #[tokio::test]
    #[should_panic(expected = "as asked")]
    async fn a_panic_of_a_task_is_passed_on() {
        let guests = GuestThreads::start_with(1).unwrap();
        run_on(guests.handle(), async { panic!("as asked") }).await;
    }
}
