//! Listener of the HTTP servers: `host serve`, `host gateway`, the registry, the run page and the metrics.
//!
//! The rules that protect a server from its clients are here once. A connection that waits for a request head keeps no
//! other client waiting: when all places are taken, the one that has waited longest is closed. A listener uses a
//! bounded share of the process's file handles, so that what runs beside it can open files. Heads, bodies, handshakes and
//! stalled answers have deadlines.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod body;
mod client;
mod host_name;
mod kept;
mod listener;
mod permits;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod tokens;

pub use address::{Peer, forwarded_for, network_of};
pub use body::{BodyError, BodyLimits, read_body};
pub use client::Client;
pub use host_name::{HostNames, is_loopback, without_port};
pub use kept::{CountedBytes, KeptBytes};
pub use listener::{ConnectionLimits, HandleShare, ListenError, Listener, RequestPace, StallBudget};
pub use permits::{KeyedPermit, Permits};
pub use server::{HttpServer, Refuse};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
pub use tokens::{ClientTokens, MIN_TOKEN, TokenDigest, TokenError, bearer, is_same};
