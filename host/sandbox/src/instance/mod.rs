//! A live instance of a plugin: one wasm instance in its own store, entered and left call by call.

pub(crate) mod budget;
pub(crate) mod failure;
pub(crate) mod inner;
pub(crate) mod memory;
mod panic_message;
pub(crate) mod pool;
pub(crate) mod shared;
pub(crate) mod slot;
mod start;
pub(crate) mod store_data;
pub(crate) mod ticker;
pub(crate) mod timer;

use std::sync::Arc;

use gymkhana_record::{Cost, Seed};
use serde::{Deserialize, Serialize};
use wasmtime::Store;
use wasmtime::component::Instance as ComponentInstance;

use crate::{CallError, Limits};
use budget::{Budget, Spent};
use pool::Permit;
use store_data::StoreData;
use timer::CallTimer;

/// A store with one instance. `E` holds the functions of the interface that is called most often.
pub(crate) struct Instance<E> {
    pub store: Store<StoreData>,
    pub exports: E,
    pub component: ComponentInstance,
    pub timer: Arc<CallTimer>,
    pub budget: Budget,
    /// Cost of the start, until a call has been charged for it.
    pub start_cost: Option<Cost>,
    /// Declared last: the permit is returned after the store is dropped.
    pub _permit: Permit,
}

impl<E> Instance<E> {
    /// Prepares one call of an episode that has already used `spent`.
    pub fn prepare(&mut self, call: &'static str, number: u64, limits: &Limits, spent: Spent) -> Result<(), CallError> {
        self.budget = Budget::after(spent, limits)?;
        self.store.data_mut().begin_call(call, number);
        arm(&mut self.store, &self.timer, self.budget);
        Ok(())
    }

    /// Cost of the last call.
    pub fn cost(&self) -> Cost {
        // Fuel remains unless the guest exhausted it.
        let fuel = self.budget.fuel.map(|fuel| fuel - self.store.get_fuel().unwrap_or(0));
        let memory = self.store.data().memory.held_bytes();
        Cost { running_us: self.timer.used() as f64 / 1e3, fuel, memory_bytes: Some(memory as u64) }
    }
}

/// Arms a store to run one call within a budget.
pub(crate) fn arm(store: &mut Store<StoreData>, timer: &CallTimer, budget: Budget) {
    timer.allow(budget.running);
    store.set_epoch_deadline(1);
    if let Some(fuel) = budget.fuel {
        // This fails only in an engine that does not count fuel; this engine counts it where fuel is limited.
        let counted = store.set_fuel(fuel);
        debug_assert!(counted.is_ok(), "the engine counts fuel");
    }
}

/// Host-side state of a live instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostState {
    /// Virtual clock, in nanoseconds.
    pub clock: u64,
    /// Number of advancing calls: the position of the random streams.
    pub calls: u64,
    /// Seed at the start of the instance.
    pub first_seed: Seed,
    /// Resources used by all calls so far.
    pub spent: Spent,
    /// That of the environment inside a wrapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<HostState>>,
}
