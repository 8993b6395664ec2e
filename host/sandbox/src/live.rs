//! One live instance of a plugin: a store that is entered and left call by call.
//!
//! While a call runs, the instance is out of its slot. It comes back only if the guest returned: after a trap, a
//! limit or a call that was dropped half-way it is gone, and the slot remembers why.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_record::{Cost, FailureKind, Seed};
use wasmtime::component::Instance;
use wasmtime::{Result as EngineResult, Store, UpdateDeadline};

use crate::bindings::gymkhana::plugin::types::Error as PluginError;
use crate::capacity::Place;
use crate::meter::{DeadlinePassed, Meter};
use crate::room::{Room, Rooms, Turn, Visit};
use crate::spending::{Allowance, Spent};
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
    /// The turn at which it was taken out of a room.
    pub turn: Option<Turn<G>>,
    allowance: Allowance,
    /// What it took to start, until a call has paid for it.
    start: Option<Cost>,
    /// Declared last: the place is free once the store is gone.
    _place: Place,
}

/// Why a guest is entered: acting moves its random streams on, looking does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Act,
    Look(&'static str),
}

/// Where an instance is between calls.
enum Home<G> {
    /// In the slot itself.
    Own(Option<Box<Live<G>>>),
    /// In a room that others visit as well.
    Shared { room: Arc<Room<G>>, visit: Box<Visit> },
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
    /// What all calls used so far.
    pub spent: Spent,
}

/// Holds a live instance between calls.
pub(crate) struct Slot<G> {
    home: Home<G>,
    /// A call is under way, or was dropped half-way.
    called: bool,
    ended: Option<CallError>,
    limits: Limits,
    spent: Spent,
    cost: Cost,
    /// The seed with which the instance began.
    first: Seed,
    /// How many acting calls there were.
    pub calls: u64,
    /// The guest's name of what the slot is for, while it is open.
    pub handle: Option<u32>,
    /// What an instance that ended had logged.
    left_log: Vec<LogLine>,
}

/// How the functions of an interface are found in an instance.
pub(crate) trait Functions<G>: FnOnce(&mut Store<State>, &Instance) -> EngineResult<G> {}
impl<G, F: FnOnce(&mut Store<State>, &Instance) -> EngineResult<G>> Functions<G> for F {}

impl<G> Live<G> {
    /// Waits for a place and instantiates the plugin in a store of its own.
    async fn open(plugin: &Plugin, seed: Seed, functions: impl Functions<G>) -> Result<Box<Self>, CallError> {
        let sandbox = plugin.sandbox();
        let limits = *sandbox.limits();
        let place = sandbox.places().take(plugin.places()).await?;
        let meter = Arc::new(Meter::new());
        let mut store = Store::new(plugin.linked().engine(), State::new(plugin, &limits, seed, &meter));
        store.limiter(|state| &mut state.account);
        store.set_hostcall_fuel(limits.result_bytes);
        store.epoch_deadline_callback({
            let meter = Arc::clone(&meter);
            move |_| {
                meter.tick()?;
                Ok(UpdateDeadline::Yield(1))
            }
        });
        let allowance = Allowance::after(Spent::default(), &limits)?;
        arm(&mut store, &meter, allowance);
        let outcome = meter.run(limits.wall, pin!(plugin.linked().instantiate_async(&mut store))).await;
        let instance = match outcome {
            Ok(Ok(instance)) => instance,
            failed => return Err(why_failed(failed, &mut store, &limits, &allowance)),
        };
        let guest = functions(&mut store, &instance).map_err(|error| CallError::malformed(error.root_cause()))?;
        let mut live = Self { store, guest, instance, meter, turn: None, allowance, start: None, _place: place };
        live.start = Some(live.cost());
        Ok(Box::new(live))
    }

    /// Prepares for one call of an episode that has spent so much.
    fn prepare_after(
        &mut self,
        call: &'static str,
        number: u64,
        limits: &Limits,
        spent: Spent,
    ) -> Result<(), CallError> {
        self.allowance = Allowance::after(spent, limits)?;
        self.store.data_mut().begin_call(call, number);
        arm(&mut self.store, &self.meter, self.allowance);
        Ok(())
    }

    /// Prepares for one call that no episode pays for.
    pub fn prepare(&mut self, call: &'static str, number: u64, limits: &Limits) -> Result<(), CallError> {
        self.prepare_after(call, number, limits, Spent::default())
    }

    /// What the last call used.
    fn cost(&self) -> Cost {
        // Fuel is left over unless the guest ran out of it.
        let fuel = self.allowance.fuel.map(|fuel| fuel - self.store.get_fuel().unwrap_or(0));
        let memory = self.store.data().account.memory_held();
        Cost { running_us: self.meter.used() as f64 / 1e3, fuel, memory_bytes: Some(memory as u64) }
    }
}

/// Lets a store run one call within these bounds.
fn arm(store: &mut Store<State>, meter: &Meter, allowance: Allowance) {
    meter.allow(allowance.running);
    store.set_epoch_deadline(1);
    if let Some(fuel) = allowance.fuel {
        // It fails only in an engine that counts no fuel; this one does where fuel is limited.
        let counted = store.set_fuel(fuel);
        debug_assert!(counted.is_ok(), "the engine counts fuel");
    }
}

impl<G> Slot<G> {
    /// Gives an episode an instance in a store of its own.
    pub async fn open(plugin: &Plugin, seed: Seed, functions: impl Functions<G>) -> Result<Self, CallError> {
        let live = Live::open(plugin, seed, functions).await?;
        Ok(Self::with(Home::Own(Some(live)), plugin, seed))
    }

    /// Gives an episode a place in an instance that others visit as well.
    pub async fn open_shared(
        plugin: &Plugin,
        rooms: &Rooms<G>,
        seed: Seed,
        functions: impl Functions<G>,
    ) -> Result<Self, CallError> {
        let room = rooms.join(Live::open(&plugin.of_nobody(), Seed(0).child("shared"), functions)).await?;
        let visit = Box::new(Visit::new(plugin, seed));
        Ok(Self::with(Home::Shared { room, visit }, plugin, seed))
    }

    fn with(home: Home<G>, plugin: &Plugin, first: Seed) -> Self {
        Self {
            home,
            called: false,
            ended: None,
            limits: *plugin.sandbox().limits(),
            spent: Spent::default(),
            cost: Cost::default(),
            first,
            calls: 0,
            handle: None,
            left_log: Vec::new(),
        }
    }

    /// Takes the instance out for one call.
    pub async fn enter(&mut self, entry: Entry) -> Result<Box<Live<G>>, CallError> {
        if let Some(error) = &self.ended {
            return Err(error.afterwards());
        }
        if std::mem::replace(&mut self.called, true) {
            let message = "its state was lost when an earlier call was cancelled";
            return Err(CallError::new(FailureKind::Deadline, message));
        }
        let taken = match &mut self.home {
            Home::Own(live) => live.take().ok_or_else(|| CallError::new(FailureKind::Fault, "the instance is gone")),
            Home::Shared { room, visit } => room.enter(&self.limits).await.map(|mut live| {
                visit.exchange(live.store.data_mut());
                live
            }),
        };
        let mut live = taken.map_err(|error| self.ends_with(error))?;
        let call = match entry {
            Entry::Act => {
                self.calls += 1;
                "call"
            }
            Entry::Look(call) => call,
        };
        match live.prepare_after(call, self.calls, &self.limits, self.spent) {
            Ok(()) => Ok(live),
            Err(error) => Err(self.end(live, error, true)),
        }
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
        self.pay(&mut live);
        match outcome {
            Ok(Ok(result)) => {
                live.store.data_mut().end_call();
                match accept(result) {
                    Ok(result) => {
                        self.put_back(live);
                        Ok(result)
                    }
                    Err(what) => Err(self.end(live, CallError::malformed(what), true)),
                }
            }
            failed => {
                let error = why_failed(failed, &mut live.store, &self.limits, &live.allowance);
                Err(self.end(live, error, false))
            }
        }
    }

    /// Counts what the call used. In a shared instance memory is nobody's own.
    fn pay(&mut self, live: &mut Live<G>) {
        let mut cost = live.cost();
        self.spent.running += Duration::from_nanos(live.meter.used());
        self.spent.fuel += cost.fuel.unwrap_or(0);
        match self.home {
            Home::Shared { .. } => cost.memory_bytes = None,
            Home::Own(_) => {
                if let Some(start) = live.start.take() {
                    cost = start + cost;
                }
            }
        }
        self.cost = cost;
    }

    fn put_back(&mut self, mut live: Box<Live<G>>) {
        self.called = false;
        match (&mut self.home, live.turn.take()) {
            (Home::Shared { visit, .. }, Some(turn)) => {
                visit.exchange(live.store.data_mut());
                turn.pass_on(live);
            }
            (home, _) => *home = Home::Own(Some(live)),
        }
    }

    /// The slot's use ends with this error. If the guest `returned`, those who share its instance go on.
    #[cold]
    fn end(&mut self, mut live: Box<Live<G>>, error: CallError, returned: bool) -> CallError {
        match (&mut self.home, live.turn.take()) {
            (Home::Shared { visit, .. }, Some(turn)) => {
                visit.exchange(live.store.data_mut());
                self.left_log = visit.log.take();
                if returned { turn.pass_on(live) } else { turn.end(&error) }
            }
            _ => self.left_log = live.store.data_mut().log.take(),
        }
        self.ends_with(error)
    }

    fn ends_with(&mut self, error: CallError) -> CallError {
        self.ended = Some(error.clone());
        error
    }

    /// The wall cap of each call.
    pub fn wall(&self) -> Duration {
        self.limits.wall
    }

    /// What the last call used; the first pays for the start of an instance of its own.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// What all calls used so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Counts what an earlier slot of the same episode used.
    pub fn charge(&mut self, earlier: Spent) {
        self.spent.running += earlier.running;
        self.spent.fuel += earlier.fuel;
    }

    /// What the host keeps for this episode; its clock stands at 0 once the instance is gone.
    pub fn host_side(&self) -> HostSide {
        let clock = match &self.home {
            Home::Own(live) => live.as_ref().map_or(0, |live| live.store.data().clock.0),
            Home::Shared { visit, .. } => visit.clock.0,
        };
        HostSide { clock, calls: self.calls, first: self.first, spent: self.spent }
    }

    /// Sets the host's side as a snapshot has it. `plugin` names the branch of the seed.
    pub fn resume(&mut self, host: &HostSide, plugin: &str, seed: Seed) {
        self.spent = host.spent;
        self.rewind(host);
        self.reseed(plugin, seed);
    }

    /// Sets the clock and the position of the random streams as a snapshot has them.
    pub fn rewind(&mut self, host: &HostSide) {
        self.calls = host.calls;
        match &mut self.home {
            Home::Own(Some(live)) => live.store.data_mut().clock.0 = host.clock,
            Home::Own(None) => (),
            Home::Shared { visit, .. } => visit.clock.0 = host.clock,
        }
    }

    /// From the next call on, what the plugin draws comes from streams below this seed.
    pub fn reseed(&mut self, plugin: &str, seed: Seed) {
        match &mut self.home {
            Home::Own(Some(live)) => live.store.data_mut().random.reseed(seed.child(plugin)),
            Home::Own(None) => (),
            Home::Shared { visit, .. } => visit.random.reseed(seed.child(plugin)),
        }
    }

    /// Takes what the plugin logged and was not taken yet.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        match &mut self.home {
            Home::Own(Some(live)) => live.store.data_mut().log.take(),
            Home::Shared { visit, .. } if self.ended.is_none() => visit.log.take(),
            _ => std::mem::take(&mut self.left_log),
        }
    }
}

impl<G> Drop for Slot<G> {
    /// An instance of its own goes with the slot; a shared one is told.
    fn drop(&mut self) {
        if let (Home::Shared { room, .. }, Some(handle)) = (&self.home, self.handle) {
            room.leave(handle);
        }
    }
}

/// Looks at a live plugin through an optional interface, whose functions are found for this one call.
///
/// `look!(slot, plugin, field of the indices, interface, function(arguments), how to accept the result)`
macro_rules! look {
    ($slot:expr, $plugin:expr, $indices:ident, $interface:literal, $function:ident($($argument:expr),*), $accept:expr) => {{
        let indices = $crate::functions::offered($plugin.indices().$indices.as_ref(), &$plugin, $interface)?;
        let mut live = $slot.enter($crate::live::Entry::Look($interface)).await?;
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

/// Saves a live plugin, or restores it, through the interface that was found when the instance opened: these are called
/// as often as steps.
///
/// `save!(slot, plugin, field of the indices, interface, function(arguments))`
macro_rules! save {
    ($slot:expr, $plugin:expr, $indices:ident, $interface:literal, $function:ident($argument:expr)) => {{
        $crate::functions::offered($plugin.indices().$indices.as_ref(), &$plugin, $interface)?;
        let mut live = $slot.enter($crate::live::Entry::Look($interface)).await?;
        let $crate::live::Live { store, guest, meter, .. } = &mut *live;
        let outcome = match &guest.saves {
            Some(saves) => meter.run($slot.wall(), std::pin::pin!(saves.$function(store, $argument))).await,
            None => Ok(Err(wasmtime::Error::msg("the instance has no functions that save it"))),
        };
        $slot.leave(live, outcome, Ok)
    }};
}
pub(crate) use save;

/// What a call that did not return means, with what the guest wrote as its last words.
#[cold]
fn why_failed<R>(outcome: Outcome<R>, store: &mut Store<State>, limits: &Limits, allowance: &Allowance) -> CallError {
    let state = store.data_mut();
    let out_of_memory = state.account.was_refused();
    let last_words = state.end_call();
    match outcome {
        Ok(Err(error)) => CallError::from_engine(&error, limits, allowance, out_of_memory, last_words.as_deref()),
        Ok(Ok(_)) | Err(DeadlinePassed) => CallError::deadline(limits),
    }
}
