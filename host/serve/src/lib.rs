//! Serves plugins to external agents and trainers: one listener, one table of sessions, an endpoint per protocol.
//!
//! A session is a sequence of episodes of an environment, or a set of tools. It is driven by the code that also plays
//! the episodes of a run ([`gymkhana_driver`]) and leaves the same records, so that `host show`, `host replay` and
//! `host rescore` read served sessions. Endpoints translate protocols and hold no state of their own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod body;
pub mod catalog;
pub mod config;
pub mod endpoints;
pub mod error;
pub mod metrics;
pub mod plain_error;
pub mod protocol;
pub mod records;
pub mod remote;
pub mod server;
pub mod session;
mod texts;
