//! One live instance of a plugin: a store that nothing shares, entered and left call by call.
//!
//! While a call runs, the instance is out of its slot. It comes back only if the guest returned: after a trap, a
//! limit or a call that was dropped half-way it is gone, and the slot remembers why.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_episode::{FailureKind, Seed};
use wasmtime::component::Instance;
use wasmtime::{Result as EngineResult, Store, UpdateDeadline};

use crate::bindings::gymkhana::plugin::types::Error as PluginError;
use crate::capacity::Place;
use crate::meter::{DeadlinePassed, Meter};
use crate::state::State;
use crate::{CallError, Limits, LogLine, Plugin};

/// What a call of a guest comes to.
pub(crate) type Outcome<R> = Result<EngineResult<R>, DeadlinePassed>;

/// A store with one instance. `G` holds the functions of the interface that is called most.
pub(crate) struct Live<G> {
    pub store: Store<State>,
    pub guest: G,
    pub instance: Instance,
    pub meter: Arc<Meter>,
    /// Declared last: the place is free once the store is gone.
    _place: Place,
}

/// Why a guest is entered: acting moves its random streams on, looking does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Act,
    Look(&'static str),
}

/// What the host keeps for a live instance and what a snapshot of it takes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostSide {
    /// The virtual clock, in nanoseconds.
    pub clock: u64,
    /// How many acting calls there were: the position of the random streams.
    pub calls: u64,
    /// The seed with which the instance began.
    pub first: Seed,
}

/// Holds a live instance between calls.
pub(crate) struct Slot<G> {
    live: Option<Box<Live<G>>>,
    ended: Option<CallError>,
    limits: Limits,
    /// The seed with which the instance began.
    first: Seed,
    /// How many acting calls there were.
    pub calls: u64,
    /// What an instance that ended had logged.
    left_log: Vec<LogLine>,
}

impl<G> Slot<G> {
    /// Waits for a place and instantiates the plugin in a store of its own.
    pub async fn open(
        plugin: &Plugin,
        seed: Seed,
        functions: impl FnOnce(&mut Store<State>, &Instance) -> EngineResult<G>,
    ) -> Result<Self, CallError> {
        let sandbox = plugin.sandbox();
        let limits = *sandbox.limits();
        let place = sandbox.places().take(plugin.places()).await?;
        let meter = Arc::new(Meter::new(limits.budget));
        let mut store = Store::new(sandbox.engine(), State::new(&limits, seed.child(plugin.name())));
        store.limiter(|state| &mut state.account);
        store.set_hostcall_fuel(limits.result_bytes);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback({
            let meter = Arc::clone(&meter);
            move |_| {
                meter.tick()?;
                Ok(UpdateDeadline::Yield(1))
            }
        });
        let outcome = meter.run(limits.wall, pin!(plugin.linked().instantiate_async(&mut store))).await;
        let instance = match outcome {
            Ok(Ok(instance)) => instance,
            failed => return Err(why_failed(failed, &mut store, &limits)),
        };
        let guest = functions(&mut store, &instance).map_err(|error| CallError::malformed(error.root_cause()))?;
        let live = Live { store, guest, instance, meter, _place: place };
        Ok(Self { live: Some(Box::new(live)), ended: None, limits, first: seed, calls: 0, left_log: Vec::new() })
    }

    /// Takes the instance out for one call.
    pub fn enter(&mut self, entry: Entry) -> Result<Box<Live<G>>, CallError> {
        let Some(mut live) = self.live.take() else { return Err(self.why_ended()) };
        let call = match entry {
            Entry::Act => {
                self.calls += 1;
                "call"
            }
            Entry::Look(call) => call,
        };
        live.store.data_mut().begin_call(call, self.calls);
        live.store.set_epoch_deadline(1);
        Ok(live)
    }

    /// Puts the instance back after a call that may say no, and accepts its result.
    pub fn leave<R, T>(
        &mut self,
        live: Box<Live<G>>,
        outcome: Outcome<Result<R, PluginError>>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        let accept_either = |result: Result<R, PluginError>| match result {
            Ok(result) => accept(result).map(Ok),
            Err(error) => Ok(Err(CallError::refused(error))),
        };
        self.leave_plain(live, outcome, accept_either)?
    }

    /// Puts the instance back after a call that cannot say no, and accepts its result.
    pub fn leave_plain<R, T>(
        &mut self,
        mut live: Box<Live<G>>,
        outcome: Outcome<R>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        let error = match outcome {
            Ok(Ok(result)) => match accept(result) {
                Ok(result) => {
                    live.store.data_mut().end_call();
                    self.live = Some(live);
                    return Ok(result);
                }
                Err(what) => {
                    live.store.data_mut().end_call();
                    CallError::malformed(what)
                }
            },
            failed => why_failed(failed, &mut live.store, &self.limits),
        };
        self.left_log = live.store.data_mut().log.take();
        self.ended = Some(error.clone());
        Err(error)
    }

    /// The wall cap of each call.
    pub fn wall(&self) -> Duration {
        self.limits.wall
    }

    /// What the host keeps for this instance; its clock stands at 0 once the instance is gone.
    pub fn host_side(&self) -> HostSide {
        let clock = self.live.as_ref().map_or(0, |live| live.store.data().clock.0);
        HostSide { clock, calls: self.calls, first: self.first }
    }

    /// Sets the host's side as a snapshot has it. `plugin` names the branch of the seed.
    pub fn resume(&mut self, host: &HostSide, plugin: &str, seed: Seed) {
        self.calls = host.calls;
        if let Some(live) = &mut self.live {
            live.store.data_mut().clock.0 = host.clock;
        }
        self.reseed(plugin, seed);
    }

    /// From the next call on, what the plugin draws comes from streams below this seed.
    pub fn reseed(&mut self, plugin: &str, seed: Seed) {
        if let Some(live) = &mut self.live {
            live.store.data_mut().random.reseed(seed.child(plugin));
        }
    }

    /// Takes what the plugin logged and was not taken yet.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        match &mut self.live {
            Some(live) => live.store.data_mut().log.take(),
            None => std::mem::take(&mut self.left_log),
        }
    }

    fn why_ended(&self) -> CallError {
        match &self.ended {
            Some(error) => error.afterwards(),
            None => CallError::new(FailureKind::Deadline, "its state was lost when an earlier call was cancelled"),
        }
    }
}

/// Looks at a live plugin through an optional interface: the functions of that are resolved for this one call.
///
/// `look!(slot, plugin, field of the indices, interface, function(arguments), how to accept the result)`
macro_rules! look {
    ($slot:expr, $plugin:expr, $indices:ident, $interface:literal, $function:ident($($argument:expr),*), $accept:expr) => {{
        let indices = $crate::plugin::offered($plugin.indices().$indices.as_ref(), &$plugin, $interface)?;
        let mut live = $slot.enter($crate::live::Entry::Look($interface))?;
        let outcome = match indices.load(&mut live.store, &live.instance) {
            Ok(guest) => {
                live.meter.run($slot.wall(), std::pin::pin!(guest.$function(&mut live.store $(, $argument)*))).await
            }
            Err(error) => Ok(Err(error)),
        };
        $slot.leave(live, outcome, $accept)
    }};
}
pub(crate) use look;

/// What a call that did not return means, with what the guest wrote as its last words.
#[cold]
fn why_failed<R>(outcome: Outcome<R>, store: &mut Store<State>, limits: &Limits) -> CallError {
    let state = store.data_mut();
    let out_of_memory = state.account.was_refused();
    let last_words = state.end_call();
    match outcome {
        Ok(Err(error)) => CallError::from_engine(&error, limits, out_of_memory, last_words.as_deref()),
        Ok(Ok(_)) | Err(DeadlinePassed) => CallError::deadline(limits),
    }
}
