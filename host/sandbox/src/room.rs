//! Trusted sharing: one instance that many episodes visit in turn, for density.
//!
//! An episode keeps its random streams, its clock, its log and its budgets, which are put into the store for the
//! length of a call. The guest's memory is common to all: a trap ends every episode in it, and what one leaves there
//! another may see. That is why a run must ask for it, and why no reward is ever shared.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gymkhana_record::{FailureKind, Seed};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use wasmtime::{Result as EngineResult, Store};

use crate::live::Live;
use crate::log::Log;
use crate::state::{Clock, RandomSource, State};
use crate::{CallError, Limits, Outbound, Plugin};

/// A guest is being told that one of its episodes ends.
pub(crate) type Closing<'a> = Pin<Box<dyn Future<Output = EngineResult<()>> + Send + 'a>>;

/// Tells a guest that one of its episodes ends.
pub(crate) type Close<G> = for<'a> fn(&'a G, &'a mut Store<State>, u32) -> Closing<'a>;

/// The rooms of one plugin and kind; new episodes go to the last until it is full.
pub(crate) struct Rooms<G> {
    episodes: usize,
    close: Close<G>,
    last: AsyncMutex<Weak<Room<G>>>,
}

impl<G> Rooms<G> {
    pub fn new(episodes: u32, close: Close<G>) -> Self {
        Self { episodes: episodes as usize, close, last: AsyncMutex::default() }
    }

    /// A place in an instance that stands, or in a new one.
    pub async fn join(
        &self,
        open: impl Future<Output = Result<Box<Live<G>>, CallError>>,
    ) -> Result<Arc<Room<G>>, CallError> {
        let mut last = self.last.lock().await;
        // Whoever holds the room is an episode in it.
        let admits = |room: &Arc<Room<G>>| !room.is_gone() && Arc::strong_count(room) <= self.episodes;
        if let Some(room) = last.upgrade().filter(admits) {
            return Ok(room);
        }
        let tenancy = Tenancy { live: Some(open.await?), ended: None };
        let room = Arc::new(Room {
            tenancy: Arc::new(AsyncMutex::new(tenancy)),
            gone: Arc::default(),
            left: Mutex::default(),
            close: self.close,
        });
        *last = Arc::downgrade(&room);
        Ok(room)
    }
}

/// One shared instance.
pub(crate) struct Room<G> {
    tenancy: Arc<AsyncMutex<Tenancy<G>>>,
    gone: Arc<AtomicBool>,
    /// Handles of episodes that were dropped and that the guest still holds.
    left: Mutex<Vec<u32>>,
    close: Close<G>,
}

/// The instance between calls; none once it ended.
struct Tenancy<G> {
    live: Option<Box<Live<G>>>,
    ended: Option<CallError>,
}

/// The right to call the instance; the next one comes when it is dropped.
pub(crate) struct Turn<G> {
    tenancy: OwnedMutexGuard<Tenancy<G>>,
    gone: Arc<AtomicBool>,
}

impl<G> Room<G> {
    /// Waits for a turn and takes the instance out. The guest then forgets the episodes that left.
    pub async fn enter(&self, limits: &Limits) -> Result<Box<Live<G>>, CallError> {
        let mut turn = Turn { tenancy: Arc::clone(&self.tenancy).lock_owned().await, gone: Arc::clone(&self.gone) };
        let Some(mut live) = turn.tenancy.live.take() else { return Err(turn.why_gone()) };
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in left {
            live.prepare("close", 0, limits)?;
            let Live { store, guest, meter, .. } = &mut *live;
            let closed = meter.run(limits.wall, pin!((self.close)(guest, store, handle))).await;
            live.store.data_mut().end_call();
            if !matches!(closed, Ok(Ok(()))) {
                turn.tenancy.ended =
                    Some(CallError::new(FailureKind::Trap, "the plugin failed to close an episode that had left"));
                return Err(turn.why_gone());
            }
        }
        live.turn = Some(turn);
        Ok(live)
    }

    /// Leaves the instance for ever; the guest is told by whoever calls it next.
    pub fn leave(&self, handle: u32) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl<G> Turn<G> {
    /// Gives the instance to the next.
    pub fn pass_on(mut self, live: Box<Live<G>>) {
        self.tenancy.live = Some(live);
    }

    /// The instance ended, for all.
    pub fn end(mut self, error: &CallError) {
        self.tenancy.ended = Some(error.clone());
    }

    fn why_gone(&self) -> CallError {
        let why = match &self.tenancy.ended {
            Some(error) => error.message.as_str(),
            None => "its call was cancelled",
        };
        let message = format!("another episode ended the instance that this one shared with it: {why}");
        CallError::new(FailureKind::Neighbour, message)
    }
}

impl<G> Drop for Turn<G> {
    fn drop(&mut self) {
        if self.tenancy.live.is_none() {
            self.gone.store(true, Ordering::Release);
        }
    }
}

/// What an episode keeps for itself while others call its instance.
pub(crate) struct Visit {
    pub clock: Clock,
    pub random: RandomSource,
    pub log: Log,
    pub world: Option<Arc<dyn Outbound>>,
}

impl Visit {
    pub fn new(plugin: &Plugin, seed: Seed) -> Self {
        Self {
            clock: Clock::default(),
            random: RandomSource::new(seed.child(plugin.name())),
            log: Log::new(plugin.sandbox().limits().log_bytes),
            world: plugin.world().cloned(),
        }
    }

    /// Puts the episode's own things into the store, or takes them out again.
    pub fn exchange(&mut self, state: &mut State) {
        std::mem::swap(&mut self.clock, &mut state.clock);
        std::mem::swap(&mut self.random, &mut state.random);
        std::mem::swap(&mut self.log, &mut state.log);
        std::mem::swap(&mut self.world, &mut state.world);
    }
}
