//! Start of an instance: its places, its store and its surroundings.

use std::pin::pin;
use std::sync::Arc;

use gymkhana_record::Seed;
use wasmtime::component::Instance as ComponentInstance;
use wasmtime::{Result as EngineResult, Store, UpdateDeadline};

use super::budget::{Budget, Spent};
use super::failure::call_failure;
use super::inner::InnerLink;
use super::pool::Permit;
use super::store_data::{RandomSource, StoreData};
use super::timer::CallTimer;
use super::{Instance, arm};
use crate::plugin::LinkedComponent;
use crate::{CallError, Plugin};

/// Resolver of an interface's functions in an instance.
pub(crate) trait Resolve<E>: FnOnce(&mut Store<StoreData>, &ComponentInstance) -> EngineResult<E> {}
impl<E, F: FnOnce(&mut Store<StoreData>, &ComponentInstance) -> EngineResult<E>> Resolve<E> for F {}

/// Surroundings of a plugin's instance: the environment inside a wrapper, and the permit of one that is inside of one.
#[derive(Default)]
pub(super) struct Place {
    pub inner: Option<InnerLink>,
    pub reserved: Option<Permit>,
}

/// Waits for a permit and instantiates the plugin in a new store. A wrapper takes the places of all plugins inside at
/// once, so that no plugin holds its place while it waits for another.
pub(super) async fn instantiate<E>(
    plugin: &Plugin,
    seed: Seed,
    resolve: impl Resolve<E>,
    place: Place,
) -> Result<Box<Instance<E>>, CallError> {
    let LinkedComponent { sandbox, linked, places, .. } = plugin.component()?;
    let limits = *sandbox.limits();
    let Place { mut inner, reserved } = place;
    let mut permit = match reserved {
        Some(reserved) => reserved,
        None => sandbox.pool().acquire(plugin.places()).await?,
    };
    if let Some(inner) = &mut inner
        && let Some(rest) = permit.split_off(plugin.places() - places)
    {
        inner.environment.reserve(rest);
    }
    let timer = Arc::new(CallTimer::new());
    let random = RandomSource::new(seed.child(plugin.name()));
    let mut data = StoreData::new(&limits, random, &timer, plugin.assets().clone(), plugin.outbound().cloned());
    data.inner = inner;
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
            store.data_mut().pass_on_log(plugin.log_sink());
            return Err(error);
        }
    };
    let exports = resolve(&mut store, &component).map_err(|error| CallError::malformed(error.root_cause()))?;
    let mut instance = Instance { store, exports, component, timer, budget, start_cost: None, _permit: permit };
    instance.start_cost = Some(instance.cost());
    Ok(Box::new(instance))
}
