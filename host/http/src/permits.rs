//! Limits per key of what happens at the same time, such as uploads per token.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// A number of permits for each key.
pub struct Permits<K> {
    max: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// A permit, released on drop.
pub struct KeyedPermit<K: Hash + Eq> {
    permits: Arc<Permits<K>>,
    key: K,
}

impl<K: Hash + Eq + Clone> Permits<K> {
    /// `max` permits for each key.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, counts: Mutex::default() })
    }

    /// Takes a permit; `None` if the key has the maximum.
    pub fn try_acquire(self: &Arc<Self>, key: K) -> Option<KeyedPermit<K>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(KeyedPermit { permits: Arc::clone(self), key })
    }
}

impl<K: Hash + Eq> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        let mut counts = self.permits.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_limited_per_key_and_released() {
        let limit = Permits::new(2);
        let first = limit.try_acquire("one");
        let second = limit.try_acquire("one");
        assert!(first.is_some() && second.is_some());
        assert!(limit.try_acquire("one").is_none() && limit.try_acquire("another").is_some());
        drop(first);
        assert!(limit.try_acquire("one").is_some());
        drop(second);
        assert!(limit.counts.lock().unwrap().is_empty(), "released keys are removed");
    }
}
