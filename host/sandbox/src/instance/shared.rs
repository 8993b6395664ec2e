//! Trusted sharing: one instance that several episodes call in turn, for density.
//!
//! Each episode keeps its own random streams, clock, log and budget, which are swapped into the store for the duration
//! of a call. The guest's memory is common: a trap ends every episode in the instance, and an episode may read data that
//! another one left there. Therefore a run must enable sharing explicitly, and rewards never share an instance.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gymkhana_record::FailureKind;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use wasmtime::{Result as EngineResult, Store};

use super::Instance;
use super::budget::Spent;
use super::store_data::{Clock, RandomSource, StoreData};
use crate::imports::log::Log;
use crate::{CallError, Limits, Outbound};

/// A guest's `close` call in progress.
pub(crate) type Closing<'a> = Pin<Box<dyn Future<Output = EngineResult<()>> + Send + 'a>>;

/// Exports that can close one of several handles in an instance.
pub(crate) trait CloseHandle {
    /// Closes an episode or session in the guest.
    fn close<'a>(&'a self, store: &'a mut Store<StoreData>, handle: u32) -> Closing<'a>;
}

type Close<E> = for<'a> fn(&'a E, &'a mut Store<StoreData>, u32) -> Closing<'a>;

/// Shared instances of one plugin and kind; new episodes join the newest until it is full.
pub(crate) struct SharedInstances<E> {
    max_episodes: usize,
    close: Close<E>,
    newest: AsyncMutex<Weak<SharedInstance<E>>>,
}

impl<E: CloseHandle> SharedInstances<E> {
    pub fn new(max_episodes: u32) -> Self {
        Self { max_episodes: max_episodes as usize, close: E::close, newest: AsyncMutex::default() }
    }
}

impl<E> SharedInstances<E> {
    /// Joins the newest instance, or opens another one if that is full or ended.
    pub async fn join(
        &self,
        open: impl Future<Output = Result<Box<Instance<E>>, CallError>>,
    ) -> Result<Arc<SharedInstance<E>>, CallError> {
        let mut newest = self.newest.lock().await;
        // Every episode in the instance holds one strong reference; `upgrade` adds one.
        let admits =
            |shared: &Arc<SharedInstance<E>>| !shared.has_ended() && Arc::strong_count(shared) <= self.max_episodes;
        if let Some(shared) = newest.upgrade().filter(admits) {
            return Ok(shared);
        }
        let state = SharedState { instance: Some(open.await?), ended: None };
        let shared = Arc::new(SharedInstance {
            state: Arc::new(AsyncMutex::new(state)),
            ended: Arc::default(),
            to_close: Mutex::default(),
            close: self.close,
        });
        *newest = Arc::downgrade(&shared);
        Ok(shared)
    }
}

/// An instance that several episodes share.
pub(crate) struct SharedInstance<E> {
    state: Arc<AsyncMutex<SharedState<E>>>,
    ended: Arc<AtomicBool>,
    /// Handles of dropped episodes that the guest still holds.
    to_close: Mutex<Vec<u32>>,
    close: Close<E>,
}

/// The instance between calls; `instance` is `None` during a call and after the end.
struct SharedState<E> {
    instance: Option<Box<Instance<E>>>,
    ended: Option<CallError>,
}

/// Exclusive right to call a shared instance; dropping it admits the next caller.
pub(crate) struct Turn<E> {
    state: OwnedMutexGuard<SharedState<E>>,
    ended: Arc<AtomicBool>,
}

impl<E> SharedInstance<E> {
    /// Waits for a turn, takes the instance out and closes the handles of dropped episodes in the guest.
    pub async fn enter(&self, limits: &Limits) -> Result<(Box<Instance<E>>, Turn<E>), CallError> {
        let state = Arc::clone(&self.state).lock_owned().await;
        let mut turn = Turn { state, ended: Arc::clone(&self.ended) };
        let Some(mut instance) = turn.state.instance.take() else { return Err(turn.ended_error()) };
        let to_close = std::mem::take(&mut *self.to_close.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in to_close {
            instance.prepare("close", 0, limits, Spent::default())?;
            let Instance { store, exports, timer, .. } = &mut *instance;
            let closed = timer.run(limits.wall, pin!((self.close)(exports, store, handle))).await;
            instance.store.data_mut().end_call();
            if !matches!(closed, Ok(Ok(()))) {
                let message = "the plugin failed to close an episode that had been dropped";
                turn.state.ended = Some(CallError::new(FailureKind::Trap, message));
                return Err(turn.ended_error());
            }
        }
        Ok((instance, turn))
    }

    /// Records that an episode was dropped; the next call closes its handle in the guest.
    pub fn leave(&self, handle: u32) {
        self.to_close.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl<E> Turn<E> {
    /// Returns the instance for the next caller.
    pub fn pass_on(mut self, instance: Box<Instance<E>>) {
        self.state.instance = Some(instance);
    }

    /// Ends the instance for all episodes.
    pub fn end(mut self, error: &CallError) {
        self.state.ended = Some(error.clone());
    }

    fn ended_error(&self) -> CallError {
        let why = match &self.state.ended {
            Some(error) => error.message.as_str(),
            None => "its call was cancelled",
        };
        let message = format!("another episode ended the instance that this one shared with it: {why}");
        CallError::new(FailureKind::Neighbour, message)
    }
}

impl<E> Drop for Turn<E> {
    fn drop(&mut self) {
        if self.state.instance.is_none() {
            self.ended.store(true, Ordering::Release);
        }
    }
}

/// Host-side state of one episode in a shared instance, kept while other episodes call it.
pub(crate) struct InstanceLease {
    pub clock: Clock,
    pub random: RandomSource,
    pub log: Log,
    outbound: Option<Arc<dyn Outbound>>,
}

impl InstanceLease {
    pub fn new(random: RandomSource, log_bytes: usize, outbound: Option<Arc<dyn Outbound>>) -> Self {
        Self { clock: Clock::default(), random, log: Log::new(log_bytes), outbound }
    }

    /// Swaps the episode's state with that in the store, before and after a call.
    pub fn swap(&mut self, data: &mut StoreData) {
        std::mem::swap(&mut self.clock, &mut data.clock);
        std::mem::swap(&mut self.random, &mut data.random);
        std::mem::swap(&mut self.log, &mut data.log);
        std::mem::swap(&mut self.outbound, &mut data.outbound);
    }
}
