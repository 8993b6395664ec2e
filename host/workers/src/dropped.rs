//! Messages that are dropped, since they were damaged on the bus or another program sent them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gymkhana_orchestration::Reporter;

/// Number of dropped messages. The first one is reported.
pub(crate) struct Dropped {
    count: AtomicU64,
    reporter: Arc<dyn Reporter>,
}

impl Dropped {
    pub fn new(reporter: &Arc<dyn Reporter>) -> Self {
        Self { count: AtomicU64::new(0), reporter: Arc::clone(reporter) }
    }

    /// Counts a message.
    pub fn add(&self, what: &str, why: &str) {
        tracing::debug!("{what} was dropped: {why}");
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            self.reporter.warn(&format!(
                "{what} on the bus was dropped: {why}; later ones are counted\nhint: check who may write to the bus, and \
                 use TLS"
            ));
        }
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
