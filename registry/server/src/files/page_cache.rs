//! Cache of the page at `/`.

use std::sync::{Arc, Mutex, PoisonError};

/// The rendered page of the last state that was asked for.
#[derive(Debug, Default)]
pub(crate) struct PageCache(Mutex<Option<(u64, Arc<str>)>>);

impl PageCache {
    pub(super) fn get(&self, sequence: u64) -> Option<Arc<str>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|(of, _)| *of == sequence).map(|(_, page)| Arc::clone(page))
    }

    pub(super) fn put(&self, sequence: u64, page: Arc<str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((sequence, page));
    }
}
