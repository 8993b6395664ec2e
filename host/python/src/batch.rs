//! Batches: jobs side by side on the threads of this process.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::poll;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc::unbounded_channel;

use crate::errors::FunctionFault;
use crate::runtime::Host;

/// Small jobs below which another thread costs more than it saves.
pub const MIN_JOBS: usize = 8;

/// Jobs that no thread has begun, with their places.
type Queue<I> = Arc<Mutex<std::iter::Enumerate<std::vec::IntoIter<I>>>>;

/// Runs jobs and returns their results in the order of the jobs. This thread and others take one job after the other,
/// others only where there are `min_jobs` for each; none waits for a thread that the system has not yet run.
///
/// # Errors
/// If a job of another thread panics: all results are lost.
pub fn spread<I, O>(
    host: &Host,
    jobs: Vec<I>,
    min_jobs: usize,
    run: fn(I) -> BoxFuture<'static, O>,
) -> Result<Vec<O>, FunctionFault>
where
    I: Send + 'static,
    O: Send + 'static,
{
    let count = jobs.len();
    let threads = (count / min_jobs).clamp(1, host.threads());
    let queue: Queue<I> = Arc::new(Mutex::new(jobs.into_iter().enumerate()));
    host.block_on(async {
        let mut results: Vec<Option<O>> = std::iter::repeat_with(|| None).take(count).collect();
        let (sender, mut receiver) = unbounded_channel();
        for _ in 1..threads {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            host.handle().spawn(async move {
                // The results are dropped if this thread panicked.
                take_all(&queue, run, |place, result| drop(sender.send((place, result)))).await;
            });
        }
        drop(sender);
        let mut left = count;
        take_all(&queue, run, |place, result| {
            results[place] = Some(result);
            left -= 1;
        })
        .await;
        while left > 0 {
            let lost = || FunctionFault::Internal("a batch was lost: one of its jobs panicked".to_owned());
            let (place, result) = receiver.recv().await.ok_or_else(lost)?;
            results[place] = Some(result);
            left -= 1;
        }
        Ok(results.into_iter().flatten().collect())
    })
}

/// Takes jobs until none is left. Those that have to wait, such as for an outbound call, wait side by side.
async fn take_all<I, O>(queue: &Queue<I>, run: fn(I) -> BoxFuture<'static, O>, mut done: impl FnMut(usize, O)) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut waiting = FuturesUnordered::new();
    while let Some((place, job)) = next() {
        let mut running = run(job);
        match poll!(&mut running) {
            Poll::Ready(result) => done(place, result),
            Poll::Pending => waiting.push(async move { (place, running.await) }),
        }
    }
    while let Some((place, result)) = waiting.next().await {
        done(place, result);
    }
}
