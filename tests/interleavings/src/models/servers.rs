//! Connections of all servers.

use std::net::{IpAddr, Ipv4Addr};

use shuttle::future::{block_on, spawn};
use tokio::sync::mpsc::unbounded_channel;

use crate::places::ConnectionPlaces;

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
