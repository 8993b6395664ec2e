//! A live environment, which may hold several episodes, and the environment inside a wrapper.
//!
//! The two are in one file because an instance of a wrapper has another environment inside, to any depth.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use gymkhana_record::{Content, NamedValue, Seed, TaskRef};
use gymkhana_registry::Kind;
use wasmtime::Store;
use wasmtime::component::Instance;

use super::results::{
    Action, Advice, Image, ResetResult, StepResult, accept_advice, accept_image, accept_reset, accept_step,
};
use crate::bindings::exports::gymkhana::plugin::environment;
use crate::calls::exported;
use crate::convert::ContentParam;
use crate::error::PluginErrorKind;
use crate::exports::EnvironmentExports;
use crate::instance::HostState;
use crate::instance::inner::{Inner, InnerLink, PluginCosts};
use crate::instance::pool::Permit;
use crate::instance::slot::{CallKind, Slot};
use crate::instance::store_data::StoreData;
use crate::unsandboxed::Unsandboxed;
use crate::{CallError, CallFuture, EnvironmentInfo, OptionalInterface, Plugin, SplitInfo, convert, info};

/// Number of episodes that a wrapper may have open inside.
const MAX_OPEN: usize = 64;

pub(super) type Guest<'a> = crate::instance::slot::Guest<'a, EnvironmentExports>;

/// A live environment. Callers name its episodes by their handles.
pub(super) struct EnvironmentInstance {
    pub plugin: Plugin,
    pub info: Arc<EnvironmentInfo>,
    pub slot: Slot<EnvironmentExports>,
}

/// Opens an instance of an environment: its own, or a shared one. `reserved` is the permit of a plugin inside a wrapper.
pub(super) async fn open_slot(
    plugin: &Plugin,
    seed: Seed,
    reserved: Option<Permit>,
) -> Result<Slot<EnvironmentExports>, CallError> {
    plugin.check_kind(Kind::Environment)?;
    let resolve = |store: &mut Store<StoreData>, instance: &Instance| {
        let main = exported(plugin, |indices| &indices.environment)?.load(&mut *store, instance)?;
        let snapshot = plugin
            .exports(OptionalInterface::Snapshot)
            .then(|| exported(plugin, |indices| &indices.snapshot)?.load(store, instance));
        let snapshot = snapshot.transpose()?;
        Ok(EnvironmentExports { main, snapshot })
    };
    match plugin.shared_instances() {
        Some(shared) => Slot::open_shared(plugin, &shared.environments, seed, resolve).await,
        None => {
            let inner = plugin.inner().map(|(inner, options)| InnerLink {
                plugin: inner.name().into(),
                environment: Box::new(InnerEnvironment::new(inner, options, seed)),
            });
            Slot::open_around(plugin, seed, resolve, inner, reserved).await
        }
    }
}

/// Call of an optional interface.
fn auxiliary(interface: OptionalInterface) -> CallKind {
    CallKind::Auxiliary(interface.name())
}

impl EnvironmentInstance {
    pub async fn open(plugin: &Plugin, seed: Seed, reserved: Option<Permit>) -> Result<Self, CallError> {
        plugin.check_wraps()?;
        let info = plugin.environment_info().await?;
        let slot = open_slot(plugin, seed, reserved).await?;
        Ok(Self { plugin: plugin.clone(), info, slot })
    }

    pub fn splits<'a>(&'a mut self, options: &'a [NamedValue]) -> CallFuture<'a, Vec<SplitInfo>> {
        Box::pin(splits_in(&mut self.slot, options))
    }

    pub async fn reset(
        &mut self,
        task: &TaskRef,
        options: &[NamedValue],
        seed: Seed,
    ) -> Result<(u32, ResetResult), CallError> {
        let Self { slot, info, .. } = self;
        let given = convert::named_value_params(options);
        let named = environment::Task { split: &task.split, index: task.index };
        let call = async |guest: Guest<'_>| guest.exports.main.call_reset(guest.store, named, &given, seed.0).await;
        let outside = |code: &dyn Unsandboxed| code.reset(task, options, seed);
        let accept = |result| accept_reset(result, info);
        let (handle, result) = slot.call(CallKind::Advancing, call, outside, accept).await?;
        slot.opened(handle);
        Ok((handle, result))
    }

    pub fn step<'a>(
        &'a mut self,
        handle: u32,
        totals: &'a mut [f64],
        seat: u32,
        action: Action<'a>,
    ) -> CallFuture<'a, StepResult> {
        Box::pin(async move {
            let content;
            let body = match action {
                Action::Message(parts) => {
                    content = ContentParam::of(parts);
                    environment::ActionBody::Message(content.as_slice())
                }
                Action::Call(call) => environment::ActionBody::Call(convert::call_param(call)),
                Action::Other(parts) => {
                    content = ContentParam::of(parts);
                    environment::ActionBody::Other(content.as_slice())
                }
            };
            let Self { slot, info, .. } = self;
            let done = environment::Action { seat, body };
            let call = async |guest: Guest<'_>| guest.exports.main.call_step(guest.store, handle, done).await;
            let outside = |code: &dyn Unsandboxed| code.step(handle, seat, action);
            slot.call(CallKind::Advancing, call, outside, |result| accept_step(result, info, totals)).await
        })
    }

    /// Closes a handle in the guest.
    pub async fn close(&mut self, handle: u32) -> Result<(), CallError> {
        let call = async |guest: Guest<'_>| guest.exports.main.call_close(guest.store, handle).await;
        let outside = |code: &dyn Unsandboxed| code.close(handle);
        self.slot.call_infallible(CallKind::Auxiliary("close"), call, outside, Ok).await?;
        self.slot.closed(handle);
        Ok(())
    }

    pub async fn snapshot(&mut self, handle: u32) -> Result<Vec<u8>, CallError> {
        let Self { slot, plugin, .. } = self;
        plugin.check_offers(OptionalInterface::Snapshot)?;
        let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_snapshot(guest.store, handle).await;
        let outside = |code: &dyn Unsandboxed| code.snapshot(handle);
        slot.call(auxiliary(OptionalInterface::Snapshot), call, outside, Ok).await
    }

    /// Restores a snapshot and returns the new guest-side handle.
    pub async fn restore(&mut self, bytes: &[u8]) -> Result<u32, CallError> {
        let Self { slot, plugin, .. } = self;
        plugin.check_offers(OptionalInterface::Snapshot)?;
        let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_restore(guest.store, bytes).await;
        let outside = |code: &dyn Unsandboxed| code.restore(bytes);
        let handle = slot.call(auxiliary(OptionalInterface::Snapshot), call, outside, Ok).await?;
        slot.opened(handle);
        Ok(handle)
    }

    pub fn state_key(&mut self, handle: u32) -> CallFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let Self { slot, plugin, .. } = self;
            plugin.check_offers(OptionalInterface::StateKey)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.state_key)?;
                indices.load(&mut *guest.store, guest.component)?.call_state_key(guest.store, handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.state_key(handle);
            slot.call(auxiliary(OptionalInterface::StateKey), call, outside, Ok).await
        })
    }

    pub fn privileged(&mut self, handle: u32) -> CallFuture<'_, Vec<NamedValue>> {
        Box::pin(async move {
            let Self { slot, plugin, .. } = self;
            plugin.check_offers(OptionalInterface::Privileged)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.privileged)?;
                indices.load(&mut *guest.store, guest.component)?.call_privileged(guest.store, handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.privileged(handle);
            slot.call(auxiliary(OptionalInterface::Privileged), call, outside, convert::named_values).await
        })
    }

    pub fn advise<'a>(&'a mut self, handle: u32, tools: &'a [String], results: &'a [String]) -> CallFuture<'a, Advice> {
        Box::pin(async move {
            let Self { slot, plugin, .. } = self;
            plugin.check_offers(OptionalInterface::Oracle)?;
            let names: Vec<&str> = tools.iter().map(String::as_str).collect();
            let texts: Vec<&str> = results.iter().map(String::as_str).collect();
            let call = async |guest: Guest<'_>| {
                let oracle = exported(plugin, |indices| &indices.oracle)?.load(&mut *guest.store, guest.component)?;
                oracle.call_advise(guest.store, handle, &names, &texts).await
            };
            let outside = |code: &dyn Unsandboxed| code.advise(handle, tools, results);
            let accept = |advice| Ok(accept_advice(advice));
            slot.call(auxiliary(OptionalInterface::Oracle), call, outside, accept).await
        })
    }

    pub fn guidance(&mut self, handle: u32) -> CallFuture<'_, Content> {
        Box::pin(async move {
            let Self { slot, plugin, .. } = self;
            plugin.check_offers(OptionalInterface::Guidance)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.guidance)?;
                indices.load(&mut *guest.store, guest.component)?.call_guidance(guest.store, handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.guidance(handle);
            slot.call(auxiliary(OptionalInterface::Guidance), call, outside, |parts| Ok(convert::content(parts))).await
        })
    }

    pub fn render(&mut self, handle: u32) -> CallFuture<'_, Image> {
        Box::pin(async move {
            let Self { slot, plugin, .. } = self;
            plugin.check_offers(OptionalInterface::Render)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.render)?;
                indices.load(&mut *guest.store, guest.component)?.call_render(guest.store, handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.render(handle);
            slot.call(auxiliary(OptionalInterface::Render), call, outside, |image| Ok(accept_image(image))).await
        })
    }
}

/// Asks an instance for its splits.
pub(super) async fn splits_in(
    slot: &mut Slot<EnvironmentExports>,
    options: &[NamedValue],
) -> Result<Vec<SplitInfo>, CallError> {
    let given = convert::named_value_params(options);
    let call = async |guest: Guest<'_>| guest.exports.main.call_splits(guest.store, &given).await;
    let outside = |code: &dyn Unsandboxed| code.splits(options);
    slot.call(CallKind::Auxiliary("splits"), call, outside, info::splits).await
}

/// The environment inside one live wrapper. Its instance opens at the first call that needs one.
struct InnerEnvironment {
    plugin: Plugin,
    name: Arc<str>,
    options: Arc<[NamedValue]>,
    seed: Seed,
    instance: Option<EnvironmentInstance>,
    /// Open episodes: handle, and the reward sum of each seat.
    episodes: BTreeMap<u32, Vec<f64>>,
    reserved: Option<Permit>,
}

impl InnerEnvironment {
    fn new(plugin: &Plugin, options: &Arc<[NamedValue]>, seed: Seed) -> Self {
        Self {
            plugin: plugin.clone(),
            name: plugin.name().into(),
            options: Arc::clone(options),
            seed,
            instance: None,
            episodes: BTreeMap::new(),
            reserved: None,
        }
    }

    async fn live(&mut self) -> Result<&mut EnvironmentInstance, CallError> {
        match &mut self.instance {
            Some(instance) => Ok(instance),
            none => {
                let opened = EnvironmentInstance::open(&self.plugin, self.seed, self.reserved.take()).await?;
                Ok(none.insert(opened))
            }
        }
    }

    /// The instance and the reward sums of an open episode.
    fn episode(&mut self, handle: u32) -> Result<(&mut EnvironmentInstance, &mut Vec<f64>), CallError> {
        match (&mut self.instance, self.episodes.get_mut(&handle)) {
            (Some(instance), Some(totals)) => Ok((instance, totals)),
            _ => Err(refusal(PluginErrorKind::NotFound, format!("the inner episode {handle} is not open"))),
        }
    }

    fn check_room(&self) -> Result<(), CallError> {
        if self.episodes.len() < MAX_OPEN {
            return Ok(());
        }
        let message = format!("{MAX_OPEN} episodes of the inner environment are open: close one first");
        Err(refusal(PluginErrorKind::Other, message))
    }

    /// Calls an episode.
    fn of<'a, T: Send + 'a>(
        &'a mut self,
        handle: u32,
        call: impl FnOnce(&'a mut EnvironmentInstance, &'a mut Vec<f64>) -> CallFuture<'a, T>,
    ) -> CallFuture<'a, T> {
        match self.episode(handle) {
            Ok((instance, totals)) => call(instance, totals),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

/// An error that a wrapper receives as one that the inner environment returned.
fn refusal(kind: PluginErrorKind, message: impl Into<String>) -> CallError {
    CallError::refused(kind.with_message(message.into()))
}

/// Bytes of a snapshot that a wrapper receives: the number of seats and the reward sum of each, before those of the guest.
fn with_totals(totals: &[f64], snapshot: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 8 * totals.len() + snapshot.len());
    bytes.extend_from_slice(&(totals.len() as u32).to_le_bytes());
    totals.iter().for_each(|total| bytes.extend_from_slice(&total.to_le_bytes()));
    bytes.extend_from_slice(snapshot);
    bytes
}

/// Reward sums and the guest's bytes in a snapshot of an environment with this many seats.
fn split_totals(snapshot: &[u8], seats: usize) -> Option<(Vec<f64>, &[u8])> {
    let (count, rest) = snapshot.split_first_chunk()?;
    if u32::from_le_bytes(*count) as usize != seats {
        return None;
    }
    let (sums, rest) = rest.split_at_checked(8 * seats)?;
    let (sums, _) = sums.as_chunks();
    let totals: Vec<f64> = sums.iter().map(|sum| f64::from_le_bytes(*sum)).collect();
    totals.iter().all(|total| total.is_finite()).then_some((totals, rest))
}

impl Inner for InnerEnvironment {
    fn describe(&mut self) -> CallFuture<'_, Arc<EnvironmentInfo>> {
        self.plugin.environment_info()
    }

    fn splits(&mut self) -> CallFuture<'_, Vec<SplitInfo>> {
        Box::pin(async move {
            let options = Arc::clone(&self.options);
            self.live().await?.splits(&options).await
        })
    }

    fn reset<'a>(&'a mut self, task: &'a TaskRef, seed: Seed) -> CallFuture<'a, (u32, ResetResult)> {
        Box::pin(async move {
            self.check_room()?;
            let options = Arc::clone(&self.options);
            let instance = self.live().await?;
            let seats = instance.info.seats.len();
            let (handle, result) = instance.reset(task, &options, seed).await?;
            self.episodes.insert(handle, vec![0.0; seats]);
            Ok((handle, result))
        })
    }

    fn step<'a>(&'a mut self, episode: u32, seat: u32, action: Action<'a>) -> CallFuture<'a, StepResult> {
        self.of(episode, move |instance, totals| instance.step(episode, totals, seat, action))
    }

    fn close(&mut self, episode: u32) -> CallFuture<'_, ()> {
        Box::pin(async move {
            match (self.episodes.remove(&episode), &mut self.instance) {
                (Some(_), Some(instance)) => instance.close(episode).await,
                _ => Ok(()),
            }
        })
    }

    fn snapshot(&mut self, episode: u32) -> CallFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let (instance, totals) = self.episode(episode)?;
            Ok(with_totals(totals, &instance.snapshot(episode).await?))
        })
    }

    fn restore<'a>(&'a mut self, snapshot: &'a [u8]) -> CallFuture<'a, u32> {
        Box::pin(async move {
            self.check_room()?;
            let instance = self.live().await?;
            let Some((totals, bytes)) = split_totals(snapshot, instance.info.seats.len()) else {
                return Err(refusal(PluginErrorKind::BadSnapshot, "it is not a snapshot of the inner environment"));
            };
            let handle = instance.restore(bytes).await?;
            self.episodes.insert(handle, totals);
            Ok(handle)
        })
    }

    fn state_key(&mut self, episode: u32) -> CallFuture<'_, Vec<u8>> {
        self.of(episode, move |instance, _| instance.state_key(episode))
    }

    fn privileged(&mut self, episode: u32) -> CallFuture<'_, Vec<NamedValue>> {
        self.of(episode, move |instance, _| instance.privileged(episode))
    }

    fn advise<'a>(&'a mut self, episode: u32, tools: &'a [String], results: &'a [String]) -> CallFuture<'a, Advice> {
        self.of(episode, move |instance, _| instance.advise(episode, tools, results))
    }

    fn guidance(&mut self, episode: u32) -> CallFuture<'_, Content> {
        self.of(episode, move |instance, _| instance.guidance(episode))
    }

    fn render(&mut self, episode: u32) -> CallFuture<'_, Image> {
        self.of(episode, move |instance, _| instance.render(episode))
    }

    fn reserve(&mut self, permit: Permit) {
        self.reserved = Some(permit);
    }

    fn take_costs(&mut self, costs: &mut PluginCosts) {
        if let Some(instance) = &mut self.instance {
            if let Some(cost) = instance.slot.take_unreported() {
                costs.add(&self.name, cost);
            }
            costs.append(&mut instance.slot.inner_costs);
        }
    }

    fn host_state(&self) -> Option<HostState> {
        self.instance.as_ref().map(|instance| instance.slot.host_state())
    }

    fn rewind(&mut self, host: &HostState) {
        if let Some(instance) = &mut self.instance {
            instance.slot.rewind(host);
        }
    }

    fn resume(&mut self, host: &HostState, seed: Seed) {
        if let Some(instance) = &mut self.instance {
            instance.slot.resume(host, self.plugin.name(), seed);
        }
        self.seed = seed;
    }

    fn reseed(&mut self, seed: Seed) {
        if let Some(instance) = &mut self.instance {
            instance.slot.reseed(self.plugin.name(), seed);
        }
        self.seed = seed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_other_seats_is_refused() {
        let bytes = with_totals(&[0.5, -1.0], b"state");
        assert_eq!(bytes.len(), 4 + 16 + 5);
        assert_eq!(split_totals(&bytes, 2), Some((vec![0.5, -1.0], b"state".as_slice())));
        assert_eq!(split_totals(&bytes, 1), None);
        assert_eq!(split_totals(&bytes[..12], 2), None);
        assert_eq!(split_totals(&with_totals(&[f64::NAN], b""), 1), None);
        assert_eq!(split_totals(&[], 1), None);
    }
}
