//! The instance of one episode or session between calls, and the one function through which every call runs.
//!
//! While a call runs, the instance is out of its slot. It comes back only if the guest returned: after a trap, an
//! exceeded limit or a cancelled call the instance is dropped, and the slot keeps the reason.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use gymkhana_record::{Cost, FailureKind, Seed};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use wasmtime::component::Instance as ComponentInstance;
use wasmtime::{Result as EngineResult, Store};

use super::HostState;
use super::Instance;
use super::budget::{BudgetLedger, Spent};
use super::failure::{TimedResult, call_failure};
use super::inner::{InnerLink, PluginCosts};
use super::pool::Permit;
use super::shared::{InstanceLease, SharedInstance, SharedInstances, Turn};
use super::start::{Place, Resolve, instantiate};
use super::store_data::{RandomSource, StoreData};
use crate::bindings::gymkhana::plugin::types::Error as PluginError;
use crate::plugin::Code;
use crate::unsandboxed::Unsandboxed;
use crate::{CallError, Limits, LogSink, Plugin};

/// Effect of a call on the episode's random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Advances the streams: a start, a step, a tool call, a scoring.
    Advancing,
    /// Leaves the streams of advancing calls unchanged and draws from streams under this name.
    Auxiliary(&'static str),
}

/// Arguments of a call: the resolved exports, and the instance to resolve further ones in.
pub(crate) struct Guest<'a, E> {
    pub exports: &'a E,
    pub component: &'a ComponentInstance,
    pub store: &'a mut Store<StoreData>,
}

/// Owner of the instance that a slot calls.
enum InstanceHandle<E> {
    /// The slot itself; empty during a call and after the end.
    Owned(Option<Box<Instance<E>>>),
    /// An instance that other slots call as well.
    Shared { instance: Arc<SharedInstance<E>>, lease: Box<InstanceLease> },
    /// Code without an instance and without a sandbox.
    Unsandboxed(Arc<dyn Unsandboxed>),
}

/// Holder of a live instance between calls.
pub(crate) struct Slot<E> {
    handle: InstanceHandle<E>,
    /// A call is in progress, or was cancelled.
    in_call: bool,
    ended: Option<CallError>,
    limits: Limits,
    ledger: BudgetLedger,
    /// Seed at the start of the instance.
    first_seed: Seed,
    /// Number of advancing calls.
    calls: u64,
    /// Guest-side handles (episodes or sessions) that are open.
    guest_handles: Vec<u32>,
    /// Cost of the calls since [`Slot::take_unreported`].
    unreported: Option<Cost>,
    /// Costs of the plugins inside a wrapper, until they are taken.
    pub inner_costs: PluginCosts,
    /// Receives the log of each call.
    log: Option<Arc<dyn LogSink>>,
}

/// An instance taken out of its slot for one call, with the turn if it is shared.
struct Entered<E> {
    instance: Box<Instance<E>>,
    turn: Option<Turn<E>>,
}

impl<E> Slot<E> {
    /// Opens a slot with its own instance, or for code without one.
    pub async fn open(plugin: &Plugin, seed: Seed, resolve: impl Resolve<E>) -> Result<Self, CallError> {
        Self::open_around(plugin, seed, resolve, None, None).await
    }

    /// Opens a slot with its own instance, with another environment inside if it is one of a wrapper. `reserved` is the
    /// permit of a plugin that is inside of a wrapper itself.
    pub async fn open_around(
        plugin: &Plugin,
        seed: Seed,
        resolve: impl Resolve<E>,
        inner: Option<InnerLink>,
        reserved: Option<Permit>,
    ) -> Result<Self, CallError> {
        let place = Place { inner, reserved };
        let handle = match plugin.code() {
            Code::Component(_) => InstanceHandle::Owned(Some(instantiate(plugin, seed, resolve, place).await?)),
            Code::Unsandboxed(code) => InstanceHandle::Unsandboxed(Arc::clone(code)),
        };
        Ok(Self::with(handle, plugin, seed))
    }

    /// Opens a slot in a shared instance.
    pub async fn open_shared(
        plugin: &Plugin,
        instances: &SharedInstances<E>,
        seed: Seed,
        resolve: impl Resolve<E>,
    ) -> Result<Self, CallError> {
        let detached = plugin.without_outbound();
        let instance =
            instances.join(instantiate(&detached, Seed(0).child("shared"), resolve, Place::default())).await?;
        let random = RandomSource::new(seed.child(plugin.name()));
        let lease = Box::new(InstanceLease::new(random, plugin.log_bytes(), plugin.outbound().cloned()));
        Ok(Self::with(InstanceHandle::Shared { instance, lease }, plugin, seed))
    }

    fn with(handle: InstanceHandle<E>, plugin: &Plugin, first_seed: Seed) -> Self {
        Self {
            handle,
            in_call: false,
            ended: None,
            limits: plugin.limits(),
            ledger: BudgetLedger::default(),
            first_seed,
            calls: 0,
            guest_handles: vec![],
            unreported: None,
            inner_costs: PluginCosts::default(),
            log: plugin.log_sink().cloned(),
        }
    }

    /// Runs one call that may return the plugin's own error, within the budget and the wall-clock limit, and checks
    /// its result. That error leaves the instance usable; every other failure ends the slot. Code without a sandbox
    /// runs `unsandboxed` instead, and without limits.
    pub async fn call<R, T>(
        &mut self,
        kind: CallKind,
        call: impl AsyncFnOnce(Guest<'_, E>) -> EngineResult<Result<R, PluginError>>,
        unsandboxed: impl FnOnce(&dyn Unsandboxed) -> Result<R, CallError>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        if let InstanceHandle::Unsandboxed(code) = &self.handle {
            let code = Arc::clone(code);
            return self.call_unsandboxed(kind, || unsandboxed(&*code), accept).await;
        }
        let accept_either = |result: Result<R, PluginError>| match result {
            Ok(result) => accept(result).map(Ok),
            Err(error) => Ok(Err(CallError::refused(error))),
        };
        self.call_component(kind, call, accept_either).await?
    }

    /// Runs one call without an error type of its own; otherwise as [`Slot::call`].
    pub async fn call_infallible<R, T>(
        &mut self,
        kind: CallKind,
        call: impl AsyncFnOnce(Guest<'_, E>) -> EngineResult<R>,
        unsandboxed: impl FnOnce(&dyn Unsandboxed) -> Result<R, CallError>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        if let InstanceHandle::Unsandboxed(code) = &self.handle {
            let code = Arc::clone(code);
            return self.call_unsandboxed(kind, || unsandboxed(&*code), accept).await;
        }
        self.call_component(kind, call, accept).await
    }

    /// Runs one call of the component's instance.
    async fn call_component<R, T>(
        &mut self,
        kind: CallKind,
        call: impl AsyncFnOnce(Guest<'_, E>) -> EngineResult<R>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        let mut entered = self.enter(kind).await?;
        let Instance { store, exports, component, timer, .. } = &mut *entered.instance;
        // The call is pinned where it is constructed: it is large, and a move would be slower than the bookkeeping.
        let outcome = timer.run(self.limits.wall, pin!(call(Guest { exports, component, store }))).await;
        self.leave(entered, outcome, accept)
    }

    /// Runs one call of code without a sandbox on this thread, and checks its result as that of a component.
    async fn call_unsandboxed<R, T>(
        &mut self,
        kind: CallKind,
        call: impl FnOnce() -> Result<R, CallError>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        if let Some(error) = &self.ended {
            return Err(error.after_end());
        }
        self.calls += u64::from(kind == CallKind::Advancing);
        let since = Instant::now();
        let result = blocking(call);
        let running = since.elapsed();
        // A task that was cancelled during the call ends here, and uses no timers of threads that end.
        tokio::task::yield_now().await;
        let cost = Cost { running_us: running.as_secs_f64() * 1e6, fuel: None, memory_bytes: None };
        self.ledger.record(u64::try_from(running.as_nanos()).unwrap_or(u64::MAX), None, cost);
        self.unreported = Some(self.unreported.map_or(cost, |sum| sum + cost));
        match result.and_then(|result| accept(result).map_err(CallError::malformed)) {
            Err(error) if error.plugin_error.is_none() => Err(self.ends_with(error)),
            done => done,
        }
    }

    /// Takes the instance out for one call.
    async fn enter(&mut self, kind: CallKind) -> Result<Entered<E>, CallError> {
        if let Some(error) = &self.ended {
            return Err(error.after_end());
        }
        if std::mem::replace(&mut self.in_call, true) {
            let message = "its state was lost when an earlier call was cancelled";
            return Err(CallError::new(FailureKind::Deadline, message));
        }
        let entered = match &mut self.handle {
            InstanceHandle::Owned(instance) => match instance.take() {
                Some(instance) => Ok(Entered { instance, turn: None }),
                None => Err(missing_instance()),
            },
            InstanceHandle::Unsandboxed(_) => Err(missing_instance()),
            InstanceHandle::Shared { instance, lease } => {
                instance.enter(&self.limits).await.map(|(mut instance, turn)| {
                    lease.swap(instance.store.data_mut());
                    Entered { instance, turn: Some(turn) }
                })
            }
        };
        let mut entered = entered.map_err(|error| self.ends_with(error))?;
        let name = match kind {
            CallKind::Advancing => {
                self.calls += 1;
                "call"
            }
            CallKind::Auxiliary(name) => name,
        };
        match entered.instance.prepare(name, self.calls, &self.limits, self.ledger.spent()) {
            Ok(()) => Ok(entered),
            Err(error) => Err(self.end(entered, error, true)),
        }
    }

    /// Puts the instance back after a call and checks the result.
    fn leave<R, T>(
        &mut self,
        mut entered: Entered<E>,
        outcome: TimedResult<R>,
        accept: impl FnOnce(R) -> Result<T, String>,
    ) -> Result<T, CallError> {
        self.record_cost(&mut entered.instance);
        match outcome {
            Ok(Ok(result)) => {
                entered.instance.store.data_mut().end_call();
                match accept(result) {
                    Ok(result) => {
                        self.put_back(entered);
                        Ok(result)
                    }
                    Err(what) => Err(self.end(entered, CallError::malformed(what), true)),
                }
            }
            failed => {
                let Instance { store, budget, .. } = &mut *entered.instance;
                let error = call_failure(failed, store, &self.limits, budget);
                Err(self.end(entered, error, false))
            }
        }
    }

    /// Records the cost of a call. Memory of a shared instance is not attributed to an episode.
    fn record_cost(&mut self, instance: &mut Instance<E>) {
        let mut cost = instance.cost();
        let fuel = cost.fuel;
        match self.handle {
            InstanceHandle::Shared { .. } => cost.memory_bytes = None,
            InstanceHandle::Owned(_) | InstanceHandle::Unsandboxed(_) => {
                if let Some(start) = instance.start_cost.take() {
                    cost = start + cost;
                }
            }
        }
        self.ledger.record(instance.timer.used(), fuel, cost);
        self.unreported = Some(self.unreported.map_or(cost, |sum| sum + cost));
        if let Some(inner) = &mut instance.store.data_mut().inner {
            inner.environment.take_costs(&mut self.inner_costs);
        }
    }

    fn put_back(&mut self, Entered { mut instance, turn }: Entered<E>) {
        self.in_call = false;
        instance.store.data_mut().pass_on_log(self.log.as_ref());
        match (&mut self.handle, turn) {
            (InstanceHandle::Shared { lease, .. }, Some(turn)) => {
                lease.swap(instance.store.data_mut());
                turn.pass_on(instance);
            }
            (handle, _) => *handle = InstanceHandle::Owned(Some(instance)),
        }
    }

    /// Ends the slot with this error. If the guest `returned`, a shared instance stays usable for the other slots.
    #[cold]
    fn end(&mut self, Entered { mut instance, turn }: Entered<E>, error: CallError, returned: bool) -> CallError {
        instance.store.data_mut().pass_on_log(self.log.as_ref());
        if let (InstanceHandle::Shared { lease, .. }, Some(turn)) = (&mut self.handle, turn) {
            lease.swap(instance.store.data_mut());
            if returned { turn.pass_on(instance) } else { turn.end(&error) }
        }
        self.ends_with(error)
    }

    fn ends_with(&mut self, error: CallError) -> CallError {
        self.ended = Some(error.clone());
        error
    }

    /// Remembers a guest-side handle, which must be closed.
    pub fn opened(&mut self, handle: u32) {
        self.guest_handles.push(handle);
    }

    /// Forgets a guest-side handle after it was closed in the guest.
    pub fn closed(&mut self, handle: u32) {
        self.guest_handles.retain(|open| *open != handle);
    }

    /// Takes the cost of the calls since the last call of this method; `None` if there were none.
    pub fn take_unreported(&mut self) -> Option<Cost> {
        self.unreported.take()
    }

    /// The environment inside a wrapper, if the instance is live.
    fn inner(&self) -> Option<&InnerLink> {
        match &self.handle {
            InstanceHandle::Owned(Some(instance)) => instance.store.data().inner.as_ref(),
            _ => None,
        }
    }

    fn inner_mut(&mut self) -> Option<&mut InnerLink> {
        match &mut self.handle {
            InstanceHandle::Owned(Some(instance)) => instance.store.data_mut().inner.as_mut(),
            _ => None,
        }
    }

    /// Cost of the last call; that of the first includes the start of an owned instance.
    pub fn cost(&self) -> Cost {
        self.ledger.last_call()
    }

    /// Resources used by all calls so far.
    pub fn spent(&self) -> Spent {
        self.ledger.spent()
    }

    /// Charges the resources that an earlier slot of the same episode used.
    pub fn charge(&mut self, earlier: Spent) {
        self.ledger.charge(earlier);
    }

    /// Host-side state of this slot; the clock is 0 after the instance ended and without a sandbox.
    pub fn host_state(&self) -> HostState {
        let clock = match &self.handle {
            InstanceHandle::Owned(instance) => instance.as_ref().map_or(0, |live| live.store.data().clock.0),
            InstanceHandle::Shared { lease, .. } => lease.clock.0,
            InstanceHandle::Unsandboxed(_) => 0,
        };
        let inner = self.inner().and_then(|inner| inner.environment.host_state()).map(Box::new);
        HostState { clock, calls: self.calls, first_seed: self.first_seed, spent: self.ledger.spent(), inner }
    }

    /// Sets the host-side state of a snapshot, then a new seed. `plugin` names the branch of the seed.
    pub fn resume(&mut self, host: &HostState, plugin: &str, seed: Seed) {
        self.ledger.set_spent(host.spent);
        self.rewind_own(host);
        self.reseed(plugin, seed);
        if let (Some(inner), Some(host)) = (self.inner_mut(), &host.inner) {
            inner.environment.resume(host, seed);
        }
    }

    /// Sets the clock and the position of the random streams to those of a snapshot.
    pub fn rewind(&mut self, host: &HostState) {
        self.rewind_own(host);
        if let (Some(inner), Some(host)) = (self.inner_mut(), &host.inner) {
            inner.environment.rewind(host);
        }
    }

    fn rewind_own(&mut self, host: &HostState) {
        self.calls = host.calls;
        match &mut self.handle {
            InstanceHandle::Owned(Some(instance)) => instance.store.data_mut().clock.0 = host.clock,
            InstanceHandle::Owned(None) | InstanceHandle::Unsandboxed(_) => (),
            InstanceHandle::Shared { lease, .. } => lease.clock.0 = host.clock,
        }
    }

    /// Sets the seed of the random streams from the next call on.
    pub fn reseed(&mut self, plugin: &str, seed: Seed) {
        match &mut self.handle {
            InstanceHandle::Owned(Some(instance)) => instance.store.data_mut().random.reseed(seed.child(plugin)),
            InstanceHandle::Owned(None) | InstanceHandle::Unsandboxed(_) => (),
            InstanceHandle::Shared { lease, .. } => lease.random.reseed(seed.child(plugin)),
        }
        if let Some(inner) = self.inner_mut() {
            inner.environment.reseed(seed);
        }
    }
}

impl<E> Drop for Slot<E> {
    /// Drops an owned instance; a shared instance is asked to close the handle at its next call.
    fn drop(&mut self) {
        for handle in self.guest_handles.drain(..) {
            match &self.handle {
                InstanceHandle::Owned(_) => (),
                InstanceHandle::Shared { instance, .. } => instance.leave(handle),
                InstanceHandle::Unsandboxed(code) => code.forget(handle),
            }
        }
    }
}

#[cold]
fn missing_instance() -> CallError {
    CallError::new(FailureKind::Fault, "the instance is missing from its slot")
}

/// Runs code that may block. A thread of a runtime hands its other tasks to another thread meanwhile.
fn blocking<T>(call: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(call),
        _ => call(),
    }
}
