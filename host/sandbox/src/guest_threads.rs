//! Threads of guests: a runtime of its own for episodes, apart from the threads that wait for timers and sockets.
//!
//! A guest yields at every tick at the earliest, and a single instruction such as `memory.fill` can take tens of
//! milliseconds. A runtime that ran guests and also waited for timers and sockets would serve these late.

use std::future::Future;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

/// Name of each thread, as the system shows it.
pub const GUEST_THREAD_NAME: &str = "guests";

/// Polls of guests after which a thread looks at its timers, and at the tasks that other threads woke. The default of 61
/// is 61 ms if every poll lasts a tick.
const POLLS_BETWEEN_CHECKS: u32 = 1;

/// Threads that run guests. Dropping it cancels their tasks and waits for each thread's current poll, which a tick ends:
/// a thread that still ran when the program exits would use libraries that have ended.
#[derive(Debug)]
pub struct GuestThreads {
    handle: Handle,
    /// Disconnected to end the runtime.
    stop: Option<Sender<()>>,
    /// Thread that owns the runtime, since a runtime must not be dropped in a task.
    owner: Option<JoinHandle<()>>,
}

impl GuestThreads {
    /// Starts one thread per core.
    ///
    /// # Errors
    /// If the system starts no further threads.
    pub fn start() -> io::Result<Self> {
        Self::with(Builder::new_multi_thread())
    }

    /// Starts this number of threads, at least 1.
    ///
    /// # Errors
    /// As [`GuestThreads::start`].
    pub fn start_with(threads: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1));
        Self::with(builder)
    }

    fn with(mut builder: Builder) -> io::Result<Self> {
        builder
            .enable_time()
            .thread_name(GUEST_THREAD_NAME)
            .event_interval(POLLS_BETWEEN_CHECKS)
            .global_queue_interval(POLLS_BETWEEN_CHECKS);
        let (started, runtime) = channel();
        let (stop, stopped) = channel::<()>();
        let owner = thread::Builder::new().name("guests-owner".to_owned()).spawn(move || match builder.build() {
            Ok(runtime) => {
                // Without a receiver the sender is gone as well.
                let _ = started.send(Ok(runtime.handle().clone()));
                let _ = stopped.recv();
            }
            Err(error) => drop(started.send(Err(error))),
        })?;
        let handle = runtime.recv().map_err(io::Error::other)??;
        Ok(Self { handle, stop: Some(stop), owner: Some(owner) })
    }

    /// Handle for tasks that call guests. The threads serve timers but no sockets.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(owner) = self.owner.take() {
            // It fails if a task panicked while it was dropped, which the task's owner hears of.
            let _ = owner.join();
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
    use std::sync::Arc;

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
    async fn no_task_outlives_the_threads() {
        let guests = GuestThreads::start_with(2).unwrap();
        let held = Arc::new(());
        for _ in 0..8 {
            let held = Arc::clone(&held);
            guests.handle().spawn(async move {
                loop {
                    assert!(Arc::strong_count(&held) > 1);
                    tokio::task::yield_now().await;
                }
            });
        }
        drop(guests);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    #[should_panic(expected = "as asked")]
    async fn a_panic_of_a_task_is_passed_on() {
        let guests = GuestThreads::start_with(1).unwrap();
        run_on(guests.handle(), async { panic!("as asked") }).await;
    }
}
