//! Jobs at workers and results at the trainer.

use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng, thread_rng};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Semaphore, watch};

use crate::ends::{Ends, end, until_ended};
use crate::reading::{ReadingPermits, Room};
use crate::sync::Arc;

/// The loop of the trainer reads results of any size, as long as there is room for one.
pub fn results_are_read_within_their_room() {
    let (offer, mut offers) = unbounded_channel::<u64>();
    let (report, mut events) = unbounded_channel::<Room>();
    // The checker's semaphore gives no permits of number zero.
    let sizes = [1 << 30, 1 << 30, 1 << 30, 1000, u64::MAX, 1];
    let worker = spawn(async move {
        for size in sizes {
            let _ = offer.send(size);
            tokio::task::yield_now().await;
        }
        // The bus stays.
        std::future::pending::<()>().await;
    });
    let reading = ReadingPermits::new();
    let mut read = 0;
    block_on(async {
        while read < sizes.len() {
            tokio::select! {
                Some(size) = offers.recv(), if reading.has_room() => {
                    let (room, report) = (reading.take(size).expect("there is room"), report.clone());
                    drop(spawn(async move { report.send(room.await).map_err(drop).expect("the loop is there") }));
                }
                Some(room) = events.recv() => {
                    drop(room);
                    read += 1;
                }
            }
        }
    });
    worker.abort();
}

/// A job ends when its trainer does not want it, when its worker leaves, and when both happen; its episodes' permits are free
/// then.
pub fn jobs_end_once_and_free_their_episodes() {
    let (episodes, leaves) = (Arc::new(Semaphore::new(2)), watch::channel(false).0);
    let jobs: Vec<_> = (0..3)
        .map(|number| {
            let (episodes, leaves) = (Arc::clone(&episodes), leaves.subscribe());
            spawn(async move {
                let (ends, ended) = watch::channel(None);
                let ends = Arc::new(ends);
                let told = Arc::clone(&ends);
                let mut until = std::pin::pin!(until_ended(ended, leaves));
                let group = async {
                    let _permits = episodes.acquire_many(2).await.expect("it is not closed");
                    match number {
                        0 => end(&told, Ends::Settled).await,
                        1 => end(&told, Ends::Superseded).await,
                        // It plays for as long as its worker stays.
                        _ => std::future::pending::<()>().await,
                    }
                };
                tokio::select! {
                    () = group => unreachable!("no job has a result"),
                    why = &mut until => why,
                }
            })
        })
        .collect();
    let leaver = spawn(async move {
        for _ in 0..thread_rng().gen_range(0..4) {
            tokio::task::yield_now().await;
        }
        leaves.send_replace(true);
        // The worker keeps the sender.
        leaves
    });
    for (number, job) in jobs.into_iter().enumerate() {
        let why = block_on(job).expect("no panic");
        let own = [Some(Ends::Settled), Some(Ends::Superseded), None][number];
        assert!(why == Ends::Leaves || Some(why) == own, "job {number} ended as {why:?}");
    }
    assert!(*block_on(leaver).expect("no panic").borrow());
    assert_eq!(episodes.available_permits(), 2);
}
