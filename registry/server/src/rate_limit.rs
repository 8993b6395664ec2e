//! Rate limits (token buckets) per publishing token and per network of anonymous clients.
//!
//! A valid token has its own bucket. Anonymous clients share the bucket of their network, for example behind a company
//! gateway, and cannot exhaust the bucket of a token.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gymkhana_http::network_of;

use crate::limits::ServerLimits;

/// Number of buckets above which full ones, which carry no information, are removed.
const MAX_BUCKETS: usize = 100_000;

/// Fill level of a bucket at a time.
struct Bucket {
    level: f64,
    updated: Instant,
}

/// Buckets of one limit.
struct Buckets<K> {
    capacity: f64,
    per_second: f64,
    by_key: Mutex<HashMap<K, Bucket>>,
}

impl<K: Hash + Eq> Buckets<K> {
    fn new(capacity: f64, per_second: f64) -> Self {
        Self { capacity, per_second, by_key: Mutex::default() }
    }

    /// Takes one unit of a bucket; returns false if it is empty.
    fn take(&self, key: K) -> bool {
        let now = Instant::now();
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        let level = |bucket: &Bucket| {
            (bucket.level + self.per_second * now.duration_since(bucket.updated).as_secs_f64()).min(self.capacity)
        };
        if by_key.len() >= MAX_BUCKETS {
            by_key.retain(|_, bucket| level(bucket) < self.capacity);
        }
        let bucket = by_key.entry(key).or_insert(Bucket { level: self.capacity, updated: now });
        (bucket.level, bucket.updated) = (level(bucket), now);
        let allowed = bucket.level >= 1.0;
        bucket.level -= f64::from(u8::from(allowed));
        allowed
    }
}

/// Clients whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// Holder of the token with this number.
    Token(String),
    /// Anonymous clients of a network.
    Anonymous(IpAddr),
}

/// Rate limits of the server.
pub(crate) struct RateLimiter {
    requests: Buckets<ClientKey>,
    changes: Buckets<String>,
    invalid_tokens: Buckets<IpAddr>,
}

impl RateLimiter {
    pub fn new(limits: ServerLimits) -> Self {
        Self {
            requests: Buckets::new(limits.request_burst, limits.requests_per_second),
            changes: Buckets::new(limits.change_burst, limits.changes_per_minute / 60.0),
            invalid_tokens: Buckets::new(limits.invalid_token_burst, 1.0 / 60.0),
        }
    }

    /// Counts a request.
    pub fn allows_request(&self, client: ClientKey) -> bool {
        self.requests.take(client)
    }

    /// Counts a change of a token.
    pub fn allows_change(&self, token: &str) -> bool {
        self.changes.take(token.to_owned())
    }

    /// Counts an invalid token from an address.
    pub fn allows_invalid_token(&self, peer: IpAddr) -> bool {
        self.invalid_tokens.take(network_of(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_limited_per_token() {
        let limits = ServerLimits { change_burst: 2.0, changes_per_minute: 0.0, ..ServerLimits::default() };
        let limiter = RateLimiter::new(limits);
        assert!(limiter.allows_change("one") && limiter.allows_change("one"));
        assert!(!limiter.allows_change("one"));
        assert!(limiter.allows_change("another"));
    }

    #[test]
    fn invalid_tokens_are_limited_per_network() {
        let limiter = RateLimiter::new(ServerLimits { invalid_token_burst: 1.0, ..ServerLimits::default() });
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (one, same, another) in [
            ("127.0.0.1", "::ffff:127.0.0.1", "127.0.0.2"),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::", "2001:db8:0:2::1"),
        ] {
            assert!(limiter.allows_invalid_token(address(one)));
            assert!(
                !limiter.allows_invalid_token(address(one)) && !limiter.allows_invalid_token(address(same)),
                "{one}"
            );
            assert!(limiter.allows_invalid_token(address(another)), "{another}");
        }
    }
}
