//! One session in the table.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::Mutex;

use super::id::SessionId;
use super::state::SessionState;
use crate::protocol::Protocol;
use gymkhana_http::Client;

/// One session.
pub(super) struct Entry {
    pub(super) id: SessionId,
    pub(super) client: Client,
    pub(super) protocol: Protocol,
    pub(super) state: Arc<Mutex<SessionState>>,
    /// Place in the list of idle sessions; 0 for none.
    pub(super) stamp: AtomicU64,
    /// Time of the last request in milliseconds since the start of the table.
    pub(super) last_used: AtomicU64,
}
