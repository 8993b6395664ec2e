//! Host-side state of a live instance, which its snapshots include.

use gymkhana_record::Seed;
use serde::{Deserialize, Serialize};

use super::budget::Spent;

/// Host-side state of a live instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostState {
    /// Virtual clock, in nanoseconds.
    pub clock: u64,
    /// Number of advancing calls: the position of the random streams.
    pub calls: u64,
    /// Seed at the start of the instance.
    pub first_seed: Seed,
    /// Resources used by all calls so far.
    pub spent: Spent,
    /// That of the environment inside a wrapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<HostState>>,
}
