//! Shared state of all requests, and the renewal of the checkpoint.

use std::sync::Arc;
use std::time::Duration;

use gymkhana_http::Permits;
use gymkhana_registry::{Authority, FolderError, RegistryFolder, SecretKey};
use tokio::sync::Semaphore;

use crate::files::page_cache::PageCache;
use crate::limits::ServerLimits;
use crate::publish_tokens::PublishTokens;
use crate::rate_limit::RateLimiter;
use crate::request_log::{RequestLog, RequestLogEntry, now};

/// Interval of the check whether the checkpoint needs a renewal.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(600);

/// Shared state of all requests.
pub(crate) struct RegistryService {
    pub folder: RegistryFolder,
    pub root: SecretKey,
    /// Validity of a checkpoint in seconds.
    pub lifetime: u64,
    pub tokens: PublishTokens,
    pub limiter: RateLimiter,
    pub log: RequestLog,
    /// Permits of folder changes, each of which reads a component into memory.
    pub changes: Arc<Semaphore>,
    /// Concurrent uploads by token.
    pub uploads: Arc<Permits<String>>,
    pub limits: ServerLimits,
    /// Rendered pages for browsers.
    pub pages: PageCache,
}

impl RegistryService {
    /// Signing authority of changes at the current time.
    pub fn authority(&self) -> Authority<'_> {
        Authority { root: Some(&self.root), lifetime: self.lifetime, now: now() }
    }

    /// Renews the checkpoint after a quarter of its validity.
    pub fn renew_if_due(&self) -> Result<(), FolderError> {
        let state = self.folder.state(Some(&self.root.public()))?;
        let age = now().saturating_sub(state.checkpoint.issued);
        if age >= self.lifetime / 4 { self.folder.renew(self.authority()) } else { Ok(()) }
    }

    /// Renews the checkpoint until the server stops.
    pub async fn renew_regularly(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            let due = Arc::clone(&self);
            let renewed = tokio::task::spawn_blocking(move || due.renew_if_due()).await;
            if let Ok(Err(error)) = renewed {
                (self.log)(&RequestLogEntry::of_failure(format!("cannot renew the checkpoint: {error}")));
            }
        }
    }
}
