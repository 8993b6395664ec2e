//! A cache of computed values, bounded by bytes, which is cleared when full.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Capacity of each [`Memo`] (bytes): a thousand shapes of prompts of 8 KiB.
const MEMO_BYTES: usize = 8 << 20;
/// Bytes of an entry besides its content: pointers, lengths and the table's slot.
pub(crate) const ENTRY_BYTES: usize = 128;

/// Size in memory.
pub(crate) trait Bytes {
    /// Bytes of the content.
    fn bytes(&self) -> usize;
}

impl Bytes for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Bytes for Arc<str> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Bytes for Arc<[u32]> {
    fn bytes(&self) -> usize {
        size_of_val(&**self)
    }
}

/// A bounded cache of computed values.
pub(crate) struct Memo<K, V>(Mutex<Entries<K, V>>);

struct Entries<K, V> {
    values: HashMap<K, V>,
    bytes: usize,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { values: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Eq + Hash + Bytes, V: Clone + Bytes> Memo<K, V> {
    /// The value of a key, computed by `work` if it is not cached.
    pub(crate) fn get<E, Q>(&self, key: &Q, work: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().values.get(key) {
            return Ok(known.clone());
        }
        let value = work()?;
        self.keep(key.to_owned(), value.clone());
        Ok(value)
    }

    /// The cached value of a key.
    pub(crate) fn known(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values.get(key).cloned()
    }

    /// Caches a value, unless it is larger than the cache.
    pub(crate) fn keep(&self, key: K, value: V) {
        let bytes = ENTRY_BYTES + key.bytes() + value.bytes();
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.bytes + bytes > MEMO_BYTES {
            cache.values.clear();
            cache.bytes = 0;
        }
        if bytes <= MEMO_BYTES && cache.values.insert(key, value).is_none() {
            cache.bytes += bytes;
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_is_bounded_by_bytes() {
        let memo: Memo<String, Arc<str>> = Memo::default();
        let get = |key: &str, bytes: usize| {
            let value: Result<Arc<str>, std::convert::Infallible> = memo.get(key, || Ok("x".repeat(bytes).into()));
            assert_eq!(value.expect("a value").len(), bytes);
        };
        for number in 0..100 {
            get(&format!("large {number}"), 1 << 20);
            assert!(memo.bytes() <= MEMO_BYTES, "{}", memo.bytes());
        }
        get("larger than the cache", MEMO_BYTES);
        assert!(memo.bytes() <= MEMO_BYTES);
        for number in 0..10_000 {
            get(&format!("small {number}"), 10);
        }
        // Ten thousand small values fit beside each other: the first is not computed again.
        let known: Result<Arc<str>, std::convert::Infallible> = memo.get("small 0", || unreachable!());
        assert_eq!(known.expect("cached").len(), 10);
    }
}
