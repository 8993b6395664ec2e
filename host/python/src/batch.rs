//! Batches: jobs side by side on the threads of this process.

use std::task::Poll;

use futures::future::{BoxFuture, join_all};
use futures::poll;

use crate::errors::Fault;
use crate::runtime::Host;

/// Jobs below which another thread costs more than it saves.
const MIN_CHUNK: usize = 8;

/// Runs jobs on all threads and returns their results in the order of the jobs. The last chunk runs on this thread.
///
/// # Errors
/// If a job panics: its result and those beside it are lost.
pub fn spread<I, O>(host: &Host, jobs: Vec<I>, run: fn(I) -> BoxFuture<'static, O>) -> Result<Vec<O>, Fault>
where
    I: Send + 'static,
    O: Send + 'static,
{
    let size = jobs.len().div_ceil(host.threads()).max(MIN_CHUNK);
    let mut chunks = Vec::new();
    let mut jobs = jobs.into_iter();
    loop {
        let chunk: Vec<I> = jobs.by_ref().take(size).collect();
        if chunk.is_empty() {
            break;
        }
        chunks.push(chunk);
    }
    let last = chunks.pop().unwrap_or_default();
    host.block_on(async {
        let others: Vec<_> = chunks.into_iter().map(|chunk| host.handle().spawn(run_all(chunk, run))).collect();
        let last = run_all(last, run).await;
        let mut results = Vec::new();
        for chunk in others {
            let lost = |error| Fault::Internal(format!("a batch was lost: {error}"));
            results.extend(chunk.await.map_err(lost)?);
        }
        results.extend(last);
        Ok(results)
    })
}

/// Runs jobs one after the other. Those that have to wait, such as for an outbound call, wait side by side.
async fn run_all<I, O>(jobs: Vec<I>, run: fn(I) -> BoxFuture<'static, O>) -> Vec<O> {
    let mut results = Vec::with_capacity(jobs.len());
    let mut waiting = Vec::new();
    for (place, job) in jobs.into_iter().enumerate() {
        let mut running = run(job);
        results.push(match poll!(&mut running) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => {
                waiting.push(async move { (place, running.await) });
                None
            }
        });
    }
    for (place, result) in join_all(waiting).await {
        results[place] = Some(result);
    }
    results.into_iter().flatten().collect()
}
