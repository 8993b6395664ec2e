//! How much one client may ask: buckets that fill with time, one for each token, and one for all strangers of an address.
//!
//! Who shows a token of this registry is nobody's neighbour: strangers who share the address, as they do behind a proxy
//! or a firm's gateway, can use up their own bucket and no other.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More buckets than this are not kept: full ones, which say nothing, are thrown away first.
const MOST_BUCKETS: usize = 100_000;

/// Handles of files that are no connection's.
const OTHER_HANDLES: u64 = 128;

/// What a server allows.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Requests a second by one token, or by all strangers of one address, in the long run.
    pub requests_per_second: f64,
    /// Requests of the same at once, after a pause.
    pub requests_at_once: f64,
    /// Changes a minute by one token, in the long run.
    pub changes_per_minute: f64,
    /// Changes by one token at once, after a pause.
    pub changes_in_a_row: f64,
    /// Wrong tokens of one address at once; then one a minute.
    pub wrong_tokens: f64,
    /// Connections that are served side by side.
    pub connections: usize,
    /// Of these, the most from one address; behind a proxy, which has them all, that is for the proxy to say.
    pub connections_per_address: usize,
    /// Releases that one token sends side by side.
    pub releases_per_token: usize,
    /// Changes of the folder that are made side by side: each holds a whole component in memory.
    pub changes_at_once: usize,
    /// How long a connection may take to send the head of a request, and to begin the next one.
    pub head: Duration,
    /// How long a client may be silent while it sends or takes a body.
    pub patience: Duration,
    /// Bytes a second in the long run, below which a client's patience is used up, too.
    pub slowest: u64,
    /// Whether all clients come through a proxy of one's own, which writes behind `X-Forwarded-For` who they are.
    pub behind_proxy: bool,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            requests_per_second: 500.0,
            requests_at_once: 5000.0,
            changes_per_minute: 10.0,
            changes_in_a_row: 60.0,
            wrong_tokens: 10.0,
            connections: 4096,
            connections_per_address: 256,
            releases_per_token: 16,
            changes_at_once: 4,
            head: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            slowest: 4096,
            behind_proxy: false,
        }
    }
}

impl ServerLimits {
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

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// Whoever shows the token of this number.
    Token(String),
    /// All who show none and come from there.
    Stranger(IpAddr),
}

/// Where an address belongs: of IPv6 a customer is given a whole /64, and may write from any address in it.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

/// Keeps count.
pub(crate) struct Limiter {
    requests: Buckets<ClientKey>,
    changes: Buckets<String>,
    wrong: Buckets<IpAddr>,
}

impl Limiter {
    pub fn new(limits: ServerLimits) -> Self {
        Self {
            requests: Buckets::new(limits.requests_at_once, limits.requests_per_second),
            changes: Buckets::new(limits.changes_in_a_row, limits.changes_per_minute / 60.0),
            wrong: Buckets::new(limits.wrong_tokens, 1.0 / 60.0),
        }
    }

    /// Whether somebody may ask once more.
    pub fn may_ask(&self, asker: ClientKey) -> bool {
        self.requests.take(asker)
    }

    /// Whether a token may change something once more.
    pub fn may_change(&self, token: &str) -> bool {
        self.changes.take(token.to_owned())
    }

    /// Whether an address may show a wrong token once more.
    pub fn may_be_wrong(&self, peer: IpAddr) -> bool {
        self.wrong.take(neighbourhood(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_so_many_and_no_more() {
        let limits = ServerLimits { changes_in_a_row: 2.0, changes_per_minute: 0.0, ..ServerLimits::default() };
        let limiter = Limiter::new(limits);
        assert!(limiter.may_change("one") && limiter.may_change("one"));
        assert!(!limiter.may_change("one"));
        assert!(limiter.may_change("another"));
    }

    #[test]
    fn who_guesses_tokens_is_not_heard_any_more() {
        let limiter = Limiter::new(ServerLimits { wrong_tokens: 1.0, ..ServerLimits::default() });
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (one, same, another) in [
            ("127.0.0.1", "::ffff:127.0.0.1", "127.0.0.2"),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::", "2001:db8:0:2::1"),
        ] {
            assert!(limiter.may_be_wrong(address(one)));
            assert!(!limiter.may_be_wrong(address(one)) && !limiter.may_be_wrong(address(same)), "{one}");
            assert!(limiter.may_be_wrong(address(another)), "{another}");
        }
    }
}
