//! Episodes of environments.

use std::sync::Arc;

use gymkhana_record::{Call, Content, Cost, NamedValue, Part, Seed, TaskRef};
use gymkhana_registry::Kind;
use serde::{Deserialize, Serialize};
use wasmtime::Store;
use wasmtime::component::Instance;

use super::environment_results::{Started, StepResult, accept_start, accept_step, check_totals};
use super::exported;
use crate::bindings::exports::gymkhana::plugin::{environment, environment_oracle, environment_render};
use crate::convert::ContentParam;
use crate::exports::EnvironmentExports;
use crate::instance::slot::{CallKind, HostState, Slot};
use crate::instance::store_data::StoreData;
use crate::unsandboxed::Unsandboxed;
use crate::{CallError, CallFuture, EnvironmentInfo, OptionalInterface, Plugin, SplitInfo, convert, info};

/// Action of the seat to move.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Message without a call of the environment's functions.
    Message(&'a [Part]),
    /// Call of a function that the environment offered to this seat.
    Call(&'a Call),
    /// Anything else.
    Other(&'a [Part]),
}

/// Next turn of the expert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// A message.
    Message(String),
    /// Calls in one turn. Ids are empty.
    Calls(Vec<Call>),
}

/// Rendering of a state for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// Plain text.
    Text(String),
    /// SVG.
    Svg(String),
    /// Another format, described in text.
    Other(String),
}

/// A plugin's state with the host-side state: position of the random streams, clock, and the reward sum of each seat
/// of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Bytes that the plugin wrote.
    #[serde(with = "gymkhana_record::bytes")]
    pub bytes: Vec<u8>,
    pub(crate) host: HostState,
    pub(crate) totals: Vec<f64>,
}

/// An episode, in its own store unless the plugin is shared. Dropping it ends the episode.
pub struct EnvironmentEpisode {
    plugin: Plugin,
    info: Arc<EnvironmentInfo>,
    slot: Slot<EnvironmentExports>,
    handle: u32,
    /// Reward sum of each seat.
    totals: Vec<f64>,
}

impl Plugin {
    /// Returns the environment's description, requested once and cached.
    ///
    /// # Errors
    /// If the plugin is not an environment, fails, or returns a description that breaks the contract.
    pub fn environment_info(&self) -> CallFuture<'_, Arc<EnvironmentInfo>> {
        Box::pin(async move {
            let describe = async || {
                let mut slot = open(self, Seed(0)).await?;
                let kind = CallKind::Auxiliary("describe");
                let call = async |guest: Guest<'_>| guest.exports.main.call_describe(guest.store).await;
                let outside = |code: &dyn Unsandboxed| code.describe_environment();
                slot.call_infallible(kind, call, outside, info::environment).await.map(Arc::new)
            };
            self.environment_cell().get_or_try_init(describe).await.cloned()
        })
    }

    /// Returns the environment's splits under these options.
    ///
    /// # Errors
    /// If the plugin is not an environment, fails, or does not know an option.
    pub fn splits<'a>(&'a self, options: &'a [NamedValue]) -> CallFuture<'a, Vec<SplitInfo>> {
        Box::pin(async move {
            let mut slot = open(self, Seed(0)).await?;
            let given = convert::named_value_params(options);
            let call = async |guest: Guest<'_>| guest.exports.main.call_splits(guest.store, &given).await;
            let outside = |code: &dyn Unsandboxed| code.splits(options);
            slot.call(CallKind::Auxiliary("splits"), call, outside, info::splits).await
        })
    }
}

type Guest<'a> = crate::instance::slot::Guest<'a, EnvironmentExports>;

/// Opens an instance for an episode: its own, or a shared one.
async fn open(plugin: &Plugin, seed: Seed) -> Result<Slot<EnvironmentExports>, CallError> {
    plugin.check_kind(Kind::Environment)?;
    let resolve = |store: &mut Store<StoreData>, instance: &Instance| {
        let main = exported(plugin, |indices| &indices.environment)?.load(&mut *store, instance)?;
        let snapshot = plugin
            .offers(OptionalInterface::Snapshot)
            .then(|| exported(plugin, |indices| &indices.snapshot)?.load(store, instance));
        let snapshot = snapshot.transpose()?;
        Ok(EnvironmentExports { main, snapshot })
    };
    match plugin.shared_instances() {
        Some(shared) => Slot::open_shared(plugin, &shared.environments, seed, resolve).await,
        None => Slot::open(plugin, seed, resolve).await,
    }
}

/// Restores a snapshot in the slot's instance and returns the new guest-side handle.
async fn restore_in(slot: &mut Slot<EnvironmentExports>, plugin: &Plugin, bytes: &[u8]) -> Result<u32, CallError> {
    plugin.check_offers(OptionalInterface::Snapshot)?;
    let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_restore(guest.store, bytes).await;
    let outside = |code: &dyn Unsandboxed| code.restore(bytes);
    slot.call(auxiliary(OptionalInterface::Snapshot), call, outside, Ok).await
}

/// Call of an optional interface.
fn auxiliary(interface: OptionalInterface) -> CallKind {
    CallKind::Auxiliary(interface.name())
}

/// Closes a handle in the guest.
async fn close_in(slot: &mut Slot<EnvironmentExports>, handle: u32) -> Result<(), CallError> {
    let call = async |guest: Guest<'_>| guest.exports.main.call_close(guest.store, handle).await;
    let outside = |code: &dyn Unsandboxed| code.close(handle);
    slot.call_infallible(CallKind::Auxiliary("close"), call, outside, Ok).await
}

impl EnvironmentEpisode {
    /// Starts an episode. The environment receives the seed unchanged; its draws from the host come from streams under
    /// that seed.
    ///
    /// # Errors
    /// If the plugin is not an environment, rejects the task or an option, fails, or returns a result that breaks the
    /// contract; or if no place becomes free in time.
    pub fn start<'a>(
        plugin: &'a Plugin,
        task: &'a TaskRef,
        options: &'a [NamedValue],
        seed: Seed,
    ) -> CallFuture<'a, (Self, Started)> {
        Box::pin(async move {
            let info = plugin.environment_info().await?;
            let mut slot = open(plugin, seed).await?;
            let given = convert::named_value_params(options);
            let named = environment::Task { split: &task.split, index: task.index };
            let call = async |guest: Guest<'_>| guest.exports.main.call_start(guest.store, named, &given, seed.0).await;
            let outside = |code: &dyn Unsandboxed| code.start(task, options, seed);
            let accept = |started| accept_start(started, &info);
            let (handle, started) = slot.call(CallKind::Advancing, call, outside, accept).await?;
            slot.guest_handle = Some(handle);
            let totals = vec![0.0; info.seats.len()];
            Ok((Self { plugin: plugin.clone(), info, slot, handle, totals }, started))
        })
    }

    /// Performs an action of a seat.
    ///
    /// # Errors
    /// If the environment fails or returns a result that breaks the contract; the episode is then over.
    pub fn step<'a>(&'a mut self, seat: u32, action: Action<'a>) -> CallFuture<'a, StepResult> {
        Box::pin(async move {
            let content;
            let deed = match action {
                Action::Message(parts) => {
                    content = ContentParam::of(parts);
                    environment::Deed::Message(content.as_slice())
                }
                Action::Call(call) => environment::Deed::Call(convert::call_param(call)),
                Action::Other(parts) => {
                    content = ContentParam::of(parts);
                    environment::Deed::Other(content.as_slice())
                }
            };
            let Self { slot, info, totals, handle, .. } = self;
            let done = environment::Action { seat, deed };
            let call = async |guest: Guest<'_>| guest.exports.main.call_step(guest.store, *handle, done).await;
            let outside = |code: &dyn Unsandboxed| code.step(*handle, seat, action);
            slot.call(CallKind::Advancing, call, outside, |stepped| accept_step(stepped, info, totals)).await
        })
    }

    /// Checks the reward sum of each seat against the range that the environment declared. A step that ends the
    /// episode is checked anyway; this is for an episode that the caller ends.
    ///
    /// # Errors
    /// If the sum of a seat is outside the range.
    pub fn check_totals(&self) -> Result<(), CallError> {
        check_totals(&self.totals, &self.info).map_err(CallError::malformed)
    }

    /// Saves the whole state of the episode, including the host side.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn snapshot(&mut self) -> CallFuture<'_, Snapshot> {
        Box::pin(async move {
            let Self { slot, plugin, handle, totals, .. } = self;
            plugin.check_offers(OptionalInterface::Snapshot)?;
            let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_snapshot(guest.store, *handle).await;
            let outside = |code: &dyn Unsandboxed| code.snapshot(*handle);
            let bytes = slot.call(auxiliary(OptionalInterface::Snapshot), call, outside, Ok).await?;
            Ok(Snapshot { bytes, host: slot.host_state(), totals: totals.clone() })
        })
    }

    /// Starts a new episode in the state of a snapshot. With the seed of the first episode it continues as that one
    /// would; with another seed, its further draws from the host differ.
    ///
    /// # Errors
    /// If the environment does not offer it, fails, or cannot read the bytes.
    pub fn restore<'a>(plugin: &'a Plugin, snapshot: &'a Snapshot, seed: Seed) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let info = plugin.environment_info().await?;
            let mut slot = open(plugin, snapshot.host.first_seed).await?;
            let handle = restore_in(&mut slot, plugin, &snapshot.bytes).await?;
            slot.guest_handle = Some(handle);
            slot.resume(&snapshot.host, plugin.name(), seed);
            Ok(Self { plugin: plugin.clone(), info, slot, handle, totals: snapshot.totals.clone() })
        })
    }

    /// Restores a snapshot of this episode in its own store, for another attempt from that state.
    ///
    /// # Errors
    /// If the environment does not offer it, fails, or cannot read the bytes; the episode then keeps its state.
    pub fn rewind<'a>(&'a mut self, snapshot: &'a Snapshot) -> CallFuture<'a, ()> {
        Box::pin(async move {
            let handle = restore_in(&mut self.slot, &self.plugin, &snapshot.bytes).await?;
            let old_handle = std::mem::replace(&mut self.handle, handle);
            self.slot.guest_handle = Some(handle);
            self.slot.rewind(&snapshot.host);
            self.totals.clone_from(&snapshot.totals);
            close_in(&mut self.slot, old_handle).await
        })
    }

    /// Sets the seed of the environment's draws from the host, from the next call on.
    pub fn reseed(&mut self, seed: Seed) {
        self.slot.reseed(self.plugin.name(), seed);
    }

    /// Returns a canonical form of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn state_key(&mut self) -> CallFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            plugin.check_offers(OptionalInterface::StateKey)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.state_key)?;
                indices.load(&mut *guest.store, guest.component)?.call_state_key(guest.store, *handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.state_key(*handle);
            slot.call(auxiliary(OptionalInterface::StateKey), call, outside, Ok).await
        })
    }

    /// Returns the values that rewards and teachers may see and policies may not.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn privileged(&mut self) -> CallFuture<'_, Vec<NamedValue>> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            plugin.check_offers(OptionalInterface::Privileged)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.privileged)?;
                indices.load(&mut *guest.store, guest.component)?.call_privileged(guest.store, *handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.privileged(*handle);
            slot.call(auxiliary(OptionalInterface::Privileged), call, outside, convert::named_values).await
        })
    }

    /// Returns the expert's next turn for the seat to move. `tools` names the functions of the run's tools, and
    /// `results` holds the answers to the calls of the expert's previous turn, as text.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn advise<'a>(&'a mut self, tools: &'a [String], results: &'a [String]) -> CallFuture<'a, Advice> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            plugin.check_offers(OptionalInterface::Oracle)?;
            let names: Vec<&str> = tools.iter().map(String::as_str).collect();
            let texts: Vec<&str> = results.iter().map(String::as_str).collect();
            let call = async |guest: Guest<'_>| {
                let oracle = exported(plugin, |indices| &indices.oracle)?.load(&mut *guest.store, guest.component)?;
                oracle.call_advise(guest.store, *handle, &names, &texts).await
            };
            let outside = |code: &dyn Unsandboxed| code.advise(*handle, tools, results);
            let accept = |advice| {
                Ok(match advice {
                    environment_oracle::Advice::Message(text) => Advice::Message(text),
                    environment_oracle::Advice::Calls(calls) => Advice::Calls(convert::calls(calls)),
                })
            };
            slot.call(auxiliary(OptionalInterface::Oracle), call, outside, accept).await
        })
    }

    /// Returns a hint after a failed attempt.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn guidance(&mut self) -> CallFuture<'_, Content> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            plugin.check_offers(OptionalInterface::Guidance)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.guidance)?;
                indices.load(&mut *guest.store, guest.component)?.call_guidance(guest.store, *handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.guidance(*handle);
            slot.call(auxiliary(OptionalInterface::Guidance), call, outside, |parts| Ok(convert::content(parts))).await
        })
    }

    /// Renders the state for people.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn render(&mut self) -> CallFuture<'_, Image> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            plugin.check_offers(OptionalInterface::Render)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.render)?;
                indices.load(&mut *guest.store, guest.component)?.call_render(guest.store, *handle).await
            };
            let accept = |image| {
                Ok(match image {
                    environment_render::Picture::Text(text) => Image::Text(text),
                    environment_render::Picture::Svg(svg) => Image::Svg(svg),
                    environment_render::Picture::Other(text) => Image::Other(text),
                })
            };
            let outside = |code: &dyn Unsandboxed| code.render(*handle);
            slot.call(auxiliary(OptionalInterface::Render), call, outside, accept).await
        })
    }

    /// Cost of the last call; that of the first includes the start of an instance of its own.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.slot.cost()
    }

    /// Closes the episode in the environment.
    ///
    /// # Errors
    /// If the environment fails at that.
    pub fn close(mut self) -> CallFuture<'static, ()> {
        Box::pin(async move {
            close_in(&mut self.slot, self.handle).await?;
            self.slot.set_closed();
            Ok(())
        })
    }
}
