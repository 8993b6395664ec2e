//! Places of connections: a limit for all and one for each network.
//!
//! A connection that waits for a request, or for a part of the body of one without a token, is closed for a new one when a
//! limit is reached: first those that have sent nothing for a second, then those of the network with the most connections,
//! then those that have waited longest since their last request. Silent connections can therefore not keep others waiting,
//! a crowd from one network does not push out a client of another before its request arrives, and only requests in progress
//! can fill a server. While few connections wait, none is closed in its first second, so that clients which reconnect at
//! once do not take a place before its request arrives.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use gymkhana_waits::pulse;
use gymkhana_waits::sync::atomic::{AtomicU64, Ordering};
use gymkhana_waits::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A request is in progress, or the connection is a WebSocket.
const BUSY: u64 = u64::MAX;
/// The connection is being closed for another one.
const LEAVING: u64 = u64::MAX - 1;
/// Added to the time of connections that have sent a request.
const HAS_ASKED: u64 = 1 << 62;
/// Time in which a connection should send its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// Time between two looks for a connection that can be closed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Share of the connections that are few.
const FEW: usize = 8;

/// The places of a listener.
pub(crate) struct ConnectionPlaces {
    all: usize,
    per_network: usize,
    since: Instant,
    state: Mutex<PlaceTable>,
    /// Notified when a place becomes free, and when a connection begins to wait.
    freed: Notify,
}

#[derive(Default)]
struct PlaceTable {
    next: u64,
    open: HashMap<u64, (IpAddr, Arc<ConnectionPlace>)>,
    by_network: HashMap<IpAddr, usize>,
}

/// A connection as others see it.
pub(crate) struct ConnectionPlace {
    places: Arc<ConnectionPlaces>,
    /// [`BUSY`], [`LEAVING`], or the time since which it waits, with [`HAS_ASKED`] if it had a request.
    state: AtomicU64,
    leaves: Notify,
}

/// A taken place, free again on drop.
pub(crate) struct Occupied {
    id: u64,
    place: Arc<ConnectionPlace>,
}

/// The network has its connections, and none that can be closed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NetworkIsFull;

/// What a look for a place found.
enum Found {
    Free(Occupied),
    /// A place becomes free soon, when a request ends, or when a connection has waited for a second.
    Wait,
}

impl ConnectionPlaces {
    /// Places for `all` connections, of which one network may take `per_network`; at least one each.
    pub fn new(all: usize, per_network: usize) -> Arc<Self> {
        Arc::new(Self {
            all: all.max(1),
            per_network: per_network.max(1),
            since: Instant::now(),
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Takes a place for a connection of a network. Waits while all others have a request in progress. One task at a time
    /// may call this.
    pub async fn take(self: &Arc<Self>, network: IpAddr) -> Result<Occupied, NetworkIsFull> {
        loop {
            match self.look(network)? {
                Found::Free(place) => return Ok(place),
                // The time is over, or something has changed: both are a reason to look again.
                Found::Wait => drop(pulse(LOOK_AGAIN, self.freed.notified()).await),
            }
        }
    }

    fn look(self: &Arc<Self>, network: IpAddr) -> Result<Found, NetworkIsFull> {
        let mut state = self.lock();
        if state.open.len() < self.all && state.of(network) < self.per_network {
            return Ok(Found::Free(self.occupy(&mut state, network)));
        }
        let only = (state.of(network) >= self.per_network).then_some(network);
        match state.make_room(only, self.now()) {
            None if only.is_some() => Err(NetworkIsFull),
            _ => Ok(Found::Wait),
        }
    }

    fn occupy(self: &Arc<Self>, state: &mut PlaceTable, network: IpAddr) -> Occupied {
        let place = Arc::new(ConnectionPlace {
            places: Arc::clone(self),
            state: AtomicU64::new(self.now()),
            leaves: Notify::new(),
        });
        let id = state.next;
        state.next += 1;
        state.open.insert(id, (network, Arc::clone(&place)));
        *state.by_network.entry(network).or_default() += 1;
        Occupied { id, place }
    }

    /// Time in microseconds.
    fn now(&self) -> u64 {
        self.since.elapsed().as_micros() as u64
    }

    fn lock(&self) -> MutexGuard<'_, PlaceTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlaceTable {
    fn of(&self, network: IpAddr) -> usize {
        self.by_network.get(&network).copied().unwrap_or(0)
    }

    /// Has a waiting connection closed, of one network or of any, unless one is being closed already. `None` if none can
    /// be.
    fn make_room(&self, only: Option<IpAddr>, now: u64) -> Option<()> {
        // Connections are silent if they began to wait before this time.
        let silent = now.saturating_sub(FIRST_REQUEST.as_micros() as u64);
        let order =
            |state: u64, network: IpAddr, id: u64| (state > silent, Reverse(self.of(network)), state & !HAS_ASKED, id);
        loop {
            let places = self.open.iter().filter(|(_, (network, _))| only.is_none_or(|only| only == *network));
            let states =
                places.map(|(id, (network, place))| (place.state.load(Ordering::Acquire), *network, *id, place));
            let candidates: Vec<_> = states.filter(|(state, ..)| *state != BUSY).collect();
            let (waiting, all) = (candidates.len(), only.map_or(self.open.len(), |only| self.of(only)));
            if candidates.iter().any(|(state, ..)| *state == LEAVING) {
                return Some(());
            }
            let oldest = candidates.into_iter().min_by_key(|(state, network, id, _)| order(*state, *network, *id));
            let (state, .., place) = oldest?;
            if waiting <= all / FEW + 1 && state & !HAS_ASKED > silent {
                return None;
            }
            if place.state.compare_exchange(state, LEAVING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                place.leaves.notify_one();
                return Some(());
            }
        }
    }
}

impl ConnectionPlace {
    /// Marks that a request is in progress. False if the connection is being closed.
    pub fn begin(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state == BUSY
            || (state != LEAVING
                && self.state.compare_exchange(state, BUSY, Ordering::AcqRel, Ordering::Acquire).is_ok())
    }

    /// Marks that the request has ended, or waits for a part of its body.
    pub fn end(&self) {
        self.state.store(HAS_ASKED | self.places.now(), Ordering::Release);
        self.places.freed.notify_one();
    }

    /// Returns when the connection must close.
    pub async fn leaves(&self) {
        self.leaves.notified().await;
    }
}

impl Occupied {
    /// The connection as others see it.
    pub fn place(&self) -> &Arc<ConnectionPlace> {
        &self.place
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let places = &self.place.places;
        let mut state = places.lock();
        let Some((network, _)) = state.open.remove(&self.id) else { return };
        match state.by_network.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(state.by_network.remove(&network)),
        }
        drop(state);
        places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn network(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// Takes a place; the connection that has to leave does so.
    async fn take(
        places: &Arc<ConnectionPlaces>,
        network: IpAddr,
        held: &mut Vec<Occupied>,
    ) -> Result<(), NetworkIsFull> {
        let taken = places.take(network);
        tokio::pin!(taken);
        let place = loop {
            tokio::select! {
                biased;
                taken = &mut taken => break taken?,
                () = tokio::task::yield_now() => {
                    held.retain(|place| place.place().state.load(Ordering::Acquire) != LEAVING);
                }
            }
        };
        held.push(place);
        Ok(())
    }

    fn ids(held: &[Occupied]) -> Vec<u64> {
        held.iter().map(|place| place.id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_has_waited_longest_leaves() {
        let (places, mut held) = (ConnectionPlaces::new(3, 3), vec![]);
        for _ in 0..3 {
            take(&places, network(1), &mut held).await.unwrap();
        }
        // The first one has sent a request, the second has one in progress, the third is silent.
        assert!(held[0].place().begin());
        held[0].place().end();
        assert!(held[1].place().begin());
        tokio::time::advance(2 * FIRST_REQUEST).await;
        take(&places, network(2), &mut held).await.unwrap();
        assert_eq!(ids(&held), [0, 1, 3], "a silent connection leaves first");
        take(&places, network(2), &mut held).await.unwrap();
        assert_eq!(ids(&held), [1, 3, 4], "a new one has time for its first request");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_progress_keep_their_place() {
        let (places, mut held) = (ConnectionPlaces::new(2, 2), vec![]);
        for last in 1..3 {
            take(&places, network(last), &mut held).await.unwrap();
            assert!(held.last().unwrap().place().begin());
        }
        let waits = tokio::time::timeout(Duration::from_secs(9), places.take(network(3))).await;
        assert!(waits.is_err(), "a new connection waits");
        held[0].place().end();
        tokio::time::advance(FIRST_REQUEST).await;
        take(&places, network(3), &mut held).await.unwrap();
        assert_eq!(ids(&held), [1, 2]);
    }

    #[tokio::test]
    async fn a_network_has_its_own_limit() {
        let (places, mut held) = (ConnectionPlaces::new(10, 2), vec![]);
        for _ in 0..2 {
            take(&places, network(1), &mut held).await.unwrap();
        }
        take(&places, network(1), &mut held).await.unwrap();
        assert_eq!(ids(&held), [1, 2], "its oldest leaves");
        assert!(held.iter().all(|place| place.place().begin()));
        assert_eq!(take(&places, network(1), &mut held).await, Err(NetworkIsFull));
        take(&places, network(2), &mut held).await.unwrap();
        held.clear();
        let state = places.lock();
        assert!(state.open.is_empty() && state.by_network.is_empty(), "nothing stays");
    }

    /// All but one have a request in progress: the next connection does not push out the one that has just come.
    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_time_for_its_request() {
        let (places, mut held) = (ConnectionPlaces::new(16, 16), vec![]);
        tokio::time::advance(FIRST_REQUEST).await;
        for _ in 0..16 {
            take(&places, network(1), &mut held).await.unwrap();
        }
        assert!(held[1..].iter().all(|place| place.place().begin()));
        assert!(matches!(places.look(network(2)), Ok(Found::Wait)));
        assert!(matches!(places.look(network(1)), Err(NetworkIsFull)));
        assert_eq!(held[0].place().state.load(Ordering::Acquire) & LEAVING, 1_000_000, "it stays");
        tokio::time::advance(FIRST_REQUEST).await;
        take(&places, network(2), &mut held).await.unwrap();
        assert_eq!(held[0].id, 1, "it had its time");
    }

    /// Of new connections, those of the crowd leave, although that of the other network came first.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_pushes_out_its_own() {
        let (places, mut held) = (ConnectionPlaces::new(8, 8), vec![]);
        take(&places, network(2), &mut held).await.unwrap();
        for _ in 0..20 {
            take(&places, network(1), &mut held).await.unwrap();
        }
        assert_eq!(ids(&held), [0, 14, 15, 16, 17, 18, 19, 20]);
        assert!(held[0].place().begin(), "its request is served");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_leaves_takes_no_request() {
        let places = ConnectionPlaces::new(1, 1);
        // At the very beginning, no time is less than a second ago.
        tokio::time::advance(FIRST_REQUEST).await;
        let old = places.take(network(1)).await.unwrap();
        assert_eq!(places.look(network(1)).err(), Some(NetworkIsFull), "it has time for its first request");
        tokio::time::advance(FIRST_REQUEST).await;
        assert!(matches!(places.look(network(1)), Ok(Found::Wait)));
        assert!(!old.place().begin());
        old.place().leaves().await;
    }
}
