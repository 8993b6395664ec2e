//! Episodes: permits of groups, places of plugins, the budget of records, and the trainer's queue.

use std::time::Duration;

use futures::future::join_all;
use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng, thread_rng};
use tokio::sync::{Semaphore, oneshot};

use crate::live_bytes::LiveBytes;
use crate::pool::InstancePool;
use crate::sync::Arc;

/// A bound that does not pass.
const BOUND: Duration = Duration::from_secs(600);

/// A turn waits for the bytes of others, and an episode that ends wakes all that wait.
pub fn episodes_wait_for_bytes_of_others() {
    let live = LiveBytes::new(10);
    let episodes: Vec<_> = (0..3)
        .map(|_| {
            let live = Arc::clone(&live);
            spawn(async move {
                live.room(BOUND).await;
                let mut share = live.share();
                share.grow_to(6);
                tokio::task::yield_now().await;
                // Those that hold bytes end without a further wait.
                share.grow_to(11);
            })
        })
        .collect();
    for episode in episodes {
        if thread_rng().gen_bool(0.2) {
            episode.abort();
        }
        let _ = block_on(episode);
    }
    block_on(live.room(BOUND));
    assert_eq!(block_on(live.room(BOUND)), Duration::ZERO, "no byte is left");
}

/// Members of one group that wait for bytes and then for each other: both go on once another episode has ended.
pub fn members_that_need_each_other_go_on() {
    let live = LiveBytes::new(10);
    let mut other = live.share();
    other.grow_to(11);
    let (to_second, from_first) = oneshot::channel();
    let (to_first, from_second) = oneshot::channel();
    let members: Vec<_> = [(to_second, from_second), (to_first, from_first)]
        .into_iter()
        .map(|(mine, its)| {
            let live = Arc::clone(&live);
            spawn(async move {
                live.room(BOUND).await;
                mine.send(()).expect("the other member waits");
                its.await.expect("the other member goes on");
            })
        })
        .collect();
    drop(other);
    for member in members {
        block_on(member).expect("no panic");
    }
}

/// Groups that take all permits, whose members wait for places of plugins.
pub fn groups_share_permits_and_places() {
    let (permits, pool) = (Arc::new(Semaphore::new(3)), Arc::new(InstancePool::new(2, BOUND)));
    let groups: Vec<_> = [2, 3, 2]
        .into_iter()
        .map(|members| {
            let (permits, pool) = (Arc::clone(&permits), Arc::clone(&pool));
            spawn(async move {
                let _permits = permits.acquire_many(members).await.expect("it is not closed");
                let member = async || {
                    let _place = pool.acquire(1).await.expect("a place");
                    tokio::task::yield_now().await;
                };
                join_all((0..members).map(|_| member())).await;
            })
        })
        .collect();
    for group in groups {
        if thread_rng().gen_bool(0.3) {
            group.abort();
        }
        let _ = block_on(group);
    }
    assert_eq!((permits.available_permits(), pool.free(), pool.waiting()), (3, 2, 0));
}
