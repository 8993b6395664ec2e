//! HTTP clients of the host: address policy, rules of allow-lists, secrets, retries and a JSON client.
//!
//! Addresses are validated after DNS resolution and the connection is made to the validated address, so DNS rebinding
//! cannot bypass the filter. Redirects are left to the caller, which checks every target.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod client;
pub mod http;
mod json_client;
mod redactor;
mod retry;
mod rule;
mod secret;

pub use address::{Reach, reach};
pub use client::{Forbidden, Reachable, check_literal, reachable, root_cause};
pub use http::{ClientError, checked_client, fetching_client};
pub use json_client::{JsonClient, JsonClientError, RawBody, Received, RequestPolicy, StatusSink};
pub use retry::{Failed, GaveUp, Retry};
pub use rule::{Rule, RuleError, SecretHeader};
pub use secret::Secret;
