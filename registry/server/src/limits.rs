//! How much one client may ask: buckets that fill with time, one for each address and each token.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More buckets than this are not kept: full ones, which say nothing, are thrown away first.
const MOST_BUCKETS: usize = 100_000;

/// Handles of files that are no connection's.
const OTHER_HANDLES: u64 = 128;

/// What a server allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests a second of one address, in the long run.
    pub requests_per_second: f64,
    /// Requests of one address at once, after a pause.
    pub requests_at_once: f64,
    /// Changes a minute by one token, in the long run.
    pub changes_per_minute: f64,
    /// Changes by one token at once, after a pause.
    pub changes_in_a_row: f64,
    /// Wrong tokens of one address at once; then one a minute.
    pub wrong_tokens: f64,
    /// Connections that are served side by side.
    pub connections: usize,
    /// Releases that are taken side by side.
    pub changes_at_once: usize,
    /// How long a client may be silent.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_second: 500.0,
            requests_at_once: 5000.0,
            changes_per_minute: 10.0,
            changes_in_a_row: 60.0,
            wrong_tokens: 10.0,
            connections: 4096,
            changes_at_once: 4,
            patience: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// The same with no more connections than this process may have handles for, two for each: its socket and its file.
    /// What the system lets it have by asking is asked for.
    #[must_use]
    pub(crate) fn within_handles(self) -> Self {
        let wanted = 2 * self.connections as u64 + OTHER_HANDLES;
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(u64::MAX);
        let current = limit.current.unwrap_or(u64::MAX);
        let raised = Rlimit { current: Some(wanted.min(most)), maximum: limit.maximum };
        let there =
            if current < wanted && setrlimit(Resource::Nofile, raised).is_ok() { wanted.min(most) } else { current };
        let room = (there.saturating_sub(OTHER_HANDLES) / 2).max(1);
        Self { connections: self.connections.min(usize::try_from(room).unwrap_or(usize::MAX)), ..self }
    }
}

/// Holds so many drops, loses one for each act, and is filled with time.
struct Bucket {
    drops: f64,
    seen: Instant,
}

/// All buckets of one kind.
struct Buckets<K> {
    most: f64,
    per_second: f64,
    by: Mutex<HashMap<K, Bucket>>,
}

impl<K: std::hash::Hash + Eq> Buckets<K> {
    fn new(most: f64, per_second: f64) -> Self {
        Self { most, per_second, by: Mutex::default() }
    }

    /// Whether one more is allowed; takes its drop if so.
    fn take(&self, key: K) -> bool {
        self.at(key, |bucket| {
            let allowed = bucket.drops >= 1.0;
            bucket.drops -= f64::from(u8::from(allowed));
            allowed
        })
    }

    /// Whether there is a drop; it stays.
    fn has(&self, key: K) -> bool {
        self.at(key, |bucket| bucket.drops >= 1.0)
    }

    fn at<T>(&self, key: K, act: impl FnOnce(&mut Bucket) -> T) -> T {
        let now = Instant::now();
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = |bucket: &Bucket| {
            (bucket.drops + self.per_second * now.duration_since(bucket.seen).as_secs_f64()).min(self.most)
        };
        if by.len() >= MOST_BUCKETS {
            by.retain(|_, bucket| filled(bucket) < self.most);
        }
        let bucket = by.entry(key).or_insert(Bucket { drops: self.most, seen: now });
        (bucket.drops, bucket.seen) = (filled(bucket), now);
        act(bucket)
    }
}

/// Keeps count.
pub(crate) struct Limiter {
    requests: Buckets<IpAddr>,
    changes: Buckets<String>,
    wrong: Buckets<IpAddr>,
}

impl Limiter {
    pub fn new(limits: Limits) -> Self {
        Self {
            requests: Buckets::new(limits.requests_at_once, limits.requests_per_second),
            changes: Buckets::new(limits.changes_in_a_row, limits.changes_per_minute / 60.0),
            wrong: Buckets::new(limits.wrong_tokens, 1.0 / 60.0),
        }
    }

    /// Whether an address may ask once more.
    pub fn may_ask(&self, peer: IpAddr) -> bool {
        self.requests.take(peer)
    }

    /// Whether a token may change something once more.
    pub fn may_change(&self, token: &str) -> bool {
        self.changes.take(token.to_owned())
    }

    /// Whether an address may try a token at all.
    pub fn may_try(&self, peer: IpAddr) -> bool {
        self.wrong.has(peer)
    }

    /// An address has tried a wrong token.
    pub fn tried_wrong(&self, peer: IpAddr) {
        self.wrong.take(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_so_many_and_no_more() {
        let limits = Limits { changes_in_a_row: 2.0, changes_per_minute: 0.0, ..Limits::default() };
        let limiter = Limiter::new(limits);
        assert!(limiter.may_change("one") && limiter.may_change("one"));
        assert!(!limiter.may_change("one"));
        assert!(limiter.may_change("another"));
    }

    #[test]
    fn who_guesses_tokens_is_not_heard_any_more() {
        let limiter = Limiter::new(Limits { wrong_tokens: 1.0, ..Limits::default() });
        let (one, another) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        assert!(limiter.may_try(one) && limiter.may_try(one), "to look costs nothing");
        limiter.tried_wrong(one);
        assert!(!limiter.may_try(one) && limiter.may_try(another));
    }
}
