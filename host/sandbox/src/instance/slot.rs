//! The instance of one episode or session between calls, and the one function through which every call runs.
//!
//! While a call runs, the instance is out of its slot. It comes back only if the guest returned: after a trap, an
//! exceeded limit or a cancelled call the instance is dropped, and the slot keeps the reason.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use gymkhana_record::{Cost, FailureKind, Seed};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use wasmtime::component::Instance as ComponentInstance;
use wasmtime::{Result as EngineResult, Store, UpdateDeadline};

use super::budget::{Budget, BudgetLedger, Spent};
use super::failure::{Outcome, call_failure};
use super::shared::{InstanceLease, SharedInstance, SharedInstances, Turn};
use super::store_data::{RandomSource, StoreData};
use super::timer::CallTimer;
use super::{Instance, arm};
use crate::bindings::gymkhana::plugin::types::Error as PluginError;
use crate::plugin::{Code, LinkedComponent};
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

/// Host-side state of a live instance, which its snapshots include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostState {
    /// Virtual clock, in nanoseconds.
    pub clock: u64,
    /// Number of advancing calls: the position of the random streams.
    pub calls: u64,
    /// Seed at the start of the instance.
    pub first_seed: Seed,
    /// Resources used by all calls so far.
    pub spent: Spent,
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
    /// Guest-side handle (episode or session) while open.
    pub guest_handle: Option<u32>,
    /// Receives the log of each call.
    log: Option<Arc<dyn LogSink>>,
}

/// An instance taken out of its slot for one call, with the turn if it is shared.
struct Entered<E> {
    instance: Box<Instance<E>>,
    turn: Option<Turn<E>>,
}

/// Resolver of an interface's functions in an instance.
pub(crate) trait Resolve<E>: FnOnce(&mut Store<StoreData>, &ComponentInstance) -> EngineResult<E> {}
impl<E, F: FnOnce(&mut Store<StoreData>, &ComponentInstance) -> EngineResult<E>> Resolve<E> for F {}

/// Waits for a permit and instantiates the plugin in a new store.
async fn instantiate<E>(plugin: &Plugin, seed: Seed, resolve: impl Resolve<E>) -> Result<Box<Instance<E>>, CallError> {
    let LinkedComponent { sandbox, linked, places, .. } = plugin.component()?;
    let limits = *sandbox.limits();
    let permit = sandbox.pool().acquire(*places).await?;
    let timer = Arc::new(CallTimer::new());
    let random = RandomSource::new(seed.child(plugin.name()));
    let data = StoreData::new(&limits, random, &timer, plugin.assets().clone(), plugin.outbound().cloned());
    let mut store = Store::new(linked.engine(), data);
    store.limiter(|data| &mut data.memory);
    store.set_hostcall_fuel(limits.result_bytes);
    store.epoch_deadline_callback({
        let timer = Arc::clone(&timer);
        move |_| {
            timer.tick()?;
            Ok(UpdateDeadline::Yield(1))
        }
    });
    let budget = Budget::after(Spent::default(), &limits)?;
    arm(&mut store, &timer, budget);
    let outcome = timer.run(limits.wall, pin!(linked.instantiate_async(&mut store))).await;
    let component = match outcome {
        Ok(Ok(component)) => component,
        failed => {
            let error = call_failure(failed, &mut store, &limits, &budget);
            pass_on_log(store.data_mut(), plugin.log_sink());
            return Err(error);
        }
    };
    let exports = resolve(&mut store, &component).map_err(|error| CallError::malformed(error.root_cause()))?;
    let mut instance = Instance { store, exports, component, timer, budget, start_cost: None, _permit: permit };
    instance.start_cost = Some(instance.cost());
    Ok(Box::new(instance))
}

impl<E> Slot<E> {
    /// Opens a slot with its own instance, or for code without one.
    pub async fn open(plugin: &Plugin, seed: Seed, resolve: impl Resolve<E>) -> Result<Self, CallError> {
        let handle = match plugin.code() {
            Code::Component(_) => InstanceHandle::Owned(Some(instantiate(plugin, seed, resolve).await?)),
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
        let instance = instances.join(instantiate(&detached, Seed(0).child("shared"), resolve)).await?;
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
            guest_handle: None,
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
            return self.call_unsandboxed(kind, || unsandboxed(&*code), accept);
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
            return self.call_unsandboxed(kind, || unsandboxed(&*code), accept);
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
    fn call_unsandboxed<R, T>(
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
        let cost = Cost { running_us: running.as_secs_f64() * 1e6, fuel: None, memory_bytes: None };
        self.ledger.record(u64::try_from(running.as_nanos()).unwrap_or(u64::MAX), None, cost);
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
        outcome: Outcome<R>,
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
    }

    fn put_back(&mut self, Entered { mut instance, turn }: Entered<E>) {
        self.in_call = false;
        pass_on_log(instance.store.data_mut(), self.log.as_ref());
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
        pass_on_log(instance.store.data_mut(), self.log.as_ref());
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

    /// Forgets the guest-side handle after it was closed in the guest.
    pub fn set_closed(&mut self) {
        self.guest_handle = None;
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
        HostState { clock, calls: self.calls, first_seed: self.first_seed, spent: self.ledger.spent() }
    }

    /// Sets the host-side state of a snapshot, then a new seed. `plugin` names the branch of the seed.
    pub fn resume(&mut self, host: &HostState, plugin: &str, seed: Seed) {
        self.ledger.set_spent(host.spent);
        self.rewind(host);
        self.reseed(plugin, seed);
    }

    /// Sets the clock and the position of the random streams to those of a snapshot.
    pub fn rewind(&mut self, host: &HostState) {
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
    }
}

/// Passes the log of a call to its sink; without one it is dropped.
fn pass_on_log(data: &mut StoreData, sink: Option<&Arc<dyn LogSink>>) {
    let lines = data.log.take();
    if let Some(sink) = sink.filter(|_| !lines.is_empty()) {
        sink.write(lines);
    }
}

impl<E> Drop for Slot<E> {
    /// Drops an owned instance; a shared instance is asked to close the handle at its next call.
    fn drop(&mut self) {
        let Some(handle) = self.guest_handle else { return };
        match &self.handle {
            InstanceHandle::Owned(_) => (),
            InstanceHandle::Shared { instance, .. } => instance.leave(handle),
            InstanceHandle::Unsandboxed(code) => code.forget(handle),
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
