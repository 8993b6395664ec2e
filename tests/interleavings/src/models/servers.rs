//! Connections of all servers, and sessions of a gateway.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::future::BoxFuture;
use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng, thread_rng};
use tokio::sync::mpsc::unbounded_channel;

use crate::dialect::{ApiError, ErrorClass};
use crate::offer::{Activity, ExternalPrograms, SessionOffer};
use crate::places::ConnectionPlaces;
use crate::sessions::{Control, ControlLimits, Episodes, HarnessResult, SessionRequest, answered};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::{Client, ClientTokens, EpisodeId};

const PLACES: usize = 2;
const CONNECTIONS: usize = 4;

/// A connection is closed for another one only between two of its requests, and every connection has its turn.
pub fn no_request_in_progress_loses_its_place() {
    let places = ConnectionPlaces::new(PLACES, PLACES);
    let (open, mut opened) = unbounded_channel();
    let listener = spawn(async move {
        for number in 0..CONNECTIONS {
            let network = IpAddr::V4(Ipv4Addr::new(10, 0, 0, number as u8));
            let place = places.take(network).await.unwrap_or_else(|_| unreachable!("each network has one connection"));
            let _ = open.send(place);
        }
    });
    let served = block_on(async {
        let mut connections = vec![];
        while let Some(place) = opened.recv().await {
            connections.push(spawn(async move {
                let mut requests = 0;
                for _ in 0..2 {
                    if !place.place().begin() {
                        // The wish to leave is there, or comes.
                        place.place().leaves().await;
                        return requests;
                    }
                    tokio::task::yield_now().await;
                    let left = futures::FutureExt::now_or_never(place.place().leaves());
                    assert!(left.is_none(), "a request in progress has lost its place");
                    place.place().end();
                    requests += 1;
                    tokio::task::yield_now().await;
                }
                requests
            }));
        }
        let mut served = 0;
        for connection in connections {
            served += connection.await.expect("no panic");
        }
        served
    });
    block_on(listener).expect("no panic");
    assert!(served <= 2 * CONNECTIONS);
}

/// Episodes that offer their session, unless the request for it is given up.
struct Offers {
    control: Arc<Control>,
    next: AtomicU32,
}

impl Episodes for Offers {
    fn next(&self, _: &SessionRequest) -> Result<EpisodeId, ApiError> {
        Ok(EpisodeId(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn play(&self, id: EpisodeId, _: SessionRequest) -> BoxFuture<'static, Result<HarnessResult, ApiError>> {
        let control = Arc::clone(&self.control);
        Box::pin(async move {
            let offer = SessionOffer { episode: id, session: id.0.to_string(), activity: Activity };
            // The checker's sleep is over at once, so that the wait for a request that is given up would not end.
            let starts = thread_rng().gen_bool(0.8);
            let ended = if starts { ExternalPrograms::play(&*control, offer).await.is_ok() } else { false };
            let ending = if ended { "ended" } else { "dropped" };
            let (episode, ending) = (id.0.to_string(), ending.to_owned());
            Ok(HarnessResult { episode, ending, reward: None, success: false, turns: 0, failures: vec![] })
        })
    }
}

/// Harnesses that open sessions, close them twice, and leave at any moment, while the gateway ends: every place is free then,
/// and both answers are equal.
pub fn sessions_end_with_their_gateway() {
    let limits = ControlLimits { sessions: PLACES, idle: Duration::from_secs(600) };
    let control = Arc::new(Control::new(limits, ClientTokens));
    control.set_episodes(Arc::new(Offers { control: Arc::clone(&control), next: AtomicU32::new(0) }));
    let harnesses: Vec<_> = (0..3)
        .map(|_| {
            let control = Arc::clone(&control);
            spawn(async move {
                let offer = match control.open(Client, SessionRequest::default()).await {
                    Ok(offer) => offer,
                    Err(error) => return assert_ne!(error.class, ErrorClass::NotFound, "{error:?}"),
                };
                let close = async || control.close(&Client, &offer.session, answered(None)).await.expect("a result");
                assert_eq!(close().await, close().await);
            })
        })
        .collect();
    let leaves = thread_rng().gen_bool(0.3);
    let drained = block_on(async {
        if leaves {
            harnesses[0].abort();
        }
        control.drain(Duration::ZERO, Duration::from_secs(60)).await
    });
    for harness in harnesses {
        let _ = block_on(harness);
    }
    assert_eq!((drained, control.live()), (0, 0));
}
