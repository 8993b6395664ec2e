//! How many of one kind one client has at once: connections of an address, releases on their way in by a token.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts, by whom it counts.
pub(crate) struct ConnectionLimit<K> {
    most: usize,
    by: Mutex<HashMap<K, usize>>,
}

/// One of them; it is given back when this goes.
pub(crate) struct ConnectionPermit<K: Hash + Eq> {
    crowd: Arc<ConnectionLimit<K>>,
    of: K,
}

impl<K: Hash + Eq + Clone> ConnectionLimit<K> {
    /// So many for each.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, by: Mutex::default() })
    }

    /// One more, unless there are as many as may be.
    pub fn enter(self: &Arc<Self>, of: K) -> Option<ConnectionPermit<K>> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by.entry(of.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { crowd: Arc::clone(self), of })
    }
}

impl<K: Hash + Eq> Drop for ConnectionPermit<K> {
    fn drop(&mut self) {
        let mut by = self.crowd.by.lock().unwrap_or_else(PoisonError::into_inner);
        match by.get_mut(&self.of) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(by.remove(&self.of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_so_many_places_and_gives_them_back() {
        let crowd = ConnectionLimit::new(2);
        let first = crowd.enter("one");
        let second = crowd.enter("one");
        assert!(first.is_some() && second.is_some());
        assert!(crowd.enter("one").is_none() && crowd.enter("another").is_some());
        drop(first);
        assert!(crowd.enter("one").is_some());
        drop(second);
        assert!(crowd.by.lock().unwrap().is_empty(), "nobody is remembered who has none");
    }
}
