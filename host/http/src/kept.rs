//! Bytes that clients make a server keep: a limit for each client and one for all.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Limits of the bytes that a server keeps for its clients.
pub struct KeptBytes<K> {
    max: usize,
    max_per_client: usize,
    state: Mutex<KeptCounts<K>>,
}

struct KeptCounts<K> {
    all: usize,
    by_client: HashMap<K, usize>,
}

/// Counted bytes, released on drop.
pub struct CountedBytes<K: Hash + Eq> {
    counter: Arc<KeptBytes<K>>,
    client: K,
    bytes: usize,
}

impl<K: Hash + Eq + Clone> KeptBytes<K> {
    /// At most `max` bytes, and at most `max_per_client` of each client.
    #[must_use]
    pub fn new(max: usize, max_per_client: usize) -> Arc<Self> {
        let state = Mutex::new(KeptCounts { all: 0, by_client: HashMap::new() });
        Arc::new(Self { max, max_per_client, state })
    }

    /// Counts bytes of a client; `None` if a limit would be exceeded.
    pub fn try_keep(self: &Arc<Self>, client: K, bytes: usize) -> Option<CountedBytes<K>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = state.by_client.get(&client).copied().unwrap_or(0);
        let (all, of_client) = (state.all.checked_add(bytes)?, of_client.checked_add(bytes)?);
        if all > self.max || of_client > self.max_per_client {
            return None;
        }
        state.all = all;
        state.by_client.insert(client.clone(), of_client);
        Some(CountedBytes { counter: Arc::clone(self), client, bytes })
    }
}

impl<K: Hash + Eq> CountedBytes<K> {
    /// Counts further bytes; false if a limit would be exceeded.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let mut state = self.counter.state.lock().unwrap_or_else(PoisonError::into_inner);
        let KeptCounts { all, by_client } = &mut *state;
        let Some(of_client) = by_client.get_mut(&self.client) else { return false };
        let (Some(grown), Some(of_client_grown)) = (all.checked_add(bytes), of_client.checked_add(bytes)) else {
            return false;
        };
        if grown > self.counter.max || of_client_grown > self.counter.max_per_client {
            return false;
        }
        (*all, *of_client) = (grown, of_client_grown);
        self.bytes += bytes;
        true
    }
}

impl<K: Hash + Eq> Drop for CountedBytes<K> {
    fn drop(&mut self) {
        let mut state = self.counter.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.all -= self.bytes;
        match state.by_client.get_mut(&self.client) {
            Some(bytes) if *bytes > self.bytes => *bytes -= self.bytes,
            _ => drop(state.by_client.remove(&self.client)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_limited_per_client_and_in_all_and_released() {
        let counter = KeptBytes::new(100, 60);
        let first = counter.try_keep("one", 40).unwrap();
        assert!(counter.try_keep("one", 21).is_none(), "the client's limit");
        let second = counter.try_keep("two", 60).unwrap();
        assert!(counter.try_keep("three", 1).is_none(), "the limit of all");
        drop(second);
        let third = counter.try_keep("one", 20).unwrap();
        let mut grown = counter.try_keep("two", 10).unwrap();
        assert!(!grown.grow(51) && !grown.grow(usize::MAX) && grown.grow(30));
        drop((first, third, grown));
        let state = counter.state.lock().unwrap();
        assert!(state.all == 0 && state.by_client.is_empty(), "nothing stays");
    }
}
