//! Episodes of environments.

use std::collections::BTreeSet;
use std::sync::Arc;

use gymkhana_record::{Call, Content, Cost, NamedValue, Opening, Part, SeatFunctions, Seed, TaskRef};
use serde::{Deserialize, Serialize};
use wasmtime::Store;
use wasmtime::component::Instance;

use super::exported;
use crate::bindings::exports::gymkhana::plugin::{environment, environment_oracle, environment_render};
use crate::convert::ContentParam;
use crate::exports::{EnvironmentExports, ExportIndices};
use crate::instance::slot::{CallKind, HostState, Slot};
use crate::instance::store_data::StoreData;
use crate::{CallError, CallFuture, EnvironmentInfo, Plugin, SplitInfo, convert, info};

const SNAPSHOT: &str = "environment-snapshot";
const STATE_KEY: &str = "environment-state-key";
const PRIVILEGED: &str = "environment-privileged";
const ORACLE: &str = "environment-oracle";
const GUIDANCE: &str = "environment-guidance";
const RENDER: &str = "environment-render";

/// Start of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// Initial observations, offered functions and tool set-ups.
    pub opening: Opening,
    /// Seat to move.
    pub seat: u32,
}

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

/// Result of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Observations: seat and content.
    pub observations: Vec<(u32, Content)>,
    /// Rewards: seat and reward.
    pub rewards: Vec<(u32, f64)>,
    /// Whether the episode has terminated.
    pub terminated: bool,
    /// Whether the episode was truncated.
    pub truncated: bool,
    /// Facts for records and rewards; policies do not receive them.
    pub extras: Vec<NamedValue>,
    /// Seat to move; any number after the end of the episode.
    pub seat: u32,
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

/// One episode, in its own store unless the plugin is shared. Dropping it ends the episode.
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
                slot.call_infallible(kind, call, info::environment).await.map(Arc::new)
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
            let options = convert::named_value_params(options);
            let call = async |guest: Guest<'_>| guest.exports.main.call_splits(guest.store, &options).await;
            slot.call(CallKind::Auxiliary("splits"), call, info::splits).await
        })
    }
}

type Guest<'a> = crate::instance::slot::Guest<'a, EnvironmentExports>;

/// Opens an instance for an episode: its own, or a shared one.
async fn open(plugin: &Plugin, seed: Seed) -> Result<Slot<EnvironmentExports>, CallError> {
    let ExportIndices { environment: main, snapshot, .. } = plugin.indices();
    let main = exported(main.as_ref(), plugin, "environment")?;
    let resolve = |store: &mut Store<StoreData>, instance: &Instance| {
        let main = main.load(&mut *store, instance)?;
        let snapshot = snapshot.as_ref().map(|snapshot| snapshot.load(store, instance)).transpose()?;
        Ok(EnvironmentExports { main, snapshot })
    };
    match plugin.shared_instances() {
        Some(shared) => Slot::open_shared(plugin, &shared.environments, seed, resolve).await,
        None => Slot::open(plugin, seed, resolve).await,
    }
}

/// Restores a snapshot in the slot's instance and returns the new guest-side handle.
async fn restore_in(slot: &mut Slot<EnvironmentExports>, plugin: &Plugin, bytes: &[u8]) -> Result<u32, CallError> {
    exported(plugin.indices().snapshot.as_ref(), plugin, SNAPSHOT)?;
    let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_restore(guest.store, bytes).await;
    slot.call(CallKind::Auxiliary(SNAPSHOT), call, Ok).await
}

/// Closes a handle in the guest.
async fn close_in(slot: &mut Slot<EnvironmentExports>, handle: u32) -> Result<(), CallError> {
    let call = async |guest: Guest<'_>| guest.exports.main.call_close(guest.store, handle).await;
    slot.call_infallible(CallKind::Auxiliary("close"), call, Ok).await
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
            let options = convert::named_value_params(options);
            let task = environment::Task { split: &task.split, index: task.index };
            let call =
                async |guest: Guest<'_>| guest.exports.main.call_start(guest.store, task, &options, seed.0).await;
            let accept = |started| accept_start(started, &info);
            let (handle, started) = slot.call(CallKind::Advancing, call, accept).await?;
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
            let action = environment::Action { seat, deed };
            let call = async |guest: Guest<'_>| guest.exports.main.call_step(guest.store, *handle, action).await;
            slot.call(CallKind::Advancing, call, |stepped| accept_step(stepped, info, totals)).await
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
            exported(plugin.indices().snapshot.as_ref(), plugin, SNAPSHOT)?;
            let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_snapshot(guest.store, *handle).await;
            let bytes = slot.call(CallKind::Auxiliary(SNAPSHOT), call, Ok).await?;
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
            let indices = exported(plugin.indices().state_key.as_ref(), plugin, STATE_KEY)?;
            let call = async |guest: Guest<'_>| {
                indices.load(&mut *guest.store, guest.component)?.call_state_key(guest.store, *handle).await
            };
            slot.call(CallKind::Auxiliary(STATE_KEY), call, Ok).await
        })
    }

    /// Returns the values that rewards and teachers may see and policies may not.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn privileged(&mut self) -> CallFuture<'_, Vec<NamedValue>> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            let indices = exported(plugin.indices().privileged.as_ref(), plugin, PRIVILEGED)?;
            let call = async |guest: Guest<'_>| {
                indices.load(&mut *guest.store, guest.component)?.call_privileged(guest.store, *handle).await
            };
            slot.call(CallKind::Auxiliary(PRIVILEGED), call, convert::named_values).await
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
            let indices = exported(plugin.indices().oracle.as_ref(), plugin, ORACLE)?;
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let results: Vec<&str> = results.iter().map(String::as_str).collect();
            let call = async |guest: Guest<'_>| {
                let oracle = indices.load(&mut *guest.store, guest.component)?;
                oracle.call_advise(guest.store, *handle, &tools, &results).await
            };
            let accept = |advice| {
                Ok(match advice {
                    environment_oracle::Advice::Message(text) => Advice::Message(text),
                    environment_oracle::Advice::Calls(calls) => Advice::Calls(convert::calls(calls)),
                })
            };
            slot.call(CallKind::Auxiliary(ORACLE), call, accept).await
        })
    }

    /// Returns a hint after a failed attempt.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn guidance(&mut self) -> CallFuture<'_, Content> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            let indices = exported(plugin.indices().guidance.as_ref(), plugin, GUIDANCE)?;
            let call = async |guest: Guest<'_>| {
                indices.load(&mut *guest.store, guest.component)?.call_guidance(guest.store, *handle).await
            };
            slot.call(CallKind::Auxiliary(GUIDANCE), call, |parts| Ok(convert::content(parts))).await
        })
    }

    /// Renders the state for people.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn render(&mut self) -> CallFuture<'_, Image> {
        Box::pin(async move {
            let Self { slot, plugin, handle, .. } = self;
            let indices = exported(plugin.indices().render.as_ref(), plugin, RENDER)?;
            let call = async |guest: Guest<'_>| {
                indices.load(&mut *guest.store, guest.component)?.call_render(guest.store, *handle).await
            };
            let accept = |image| {
                Ok(match image {
                    environment_render::Picture::Text(text) => Image::Text(text),
                    environment_render::Picture::Svg(svg) => Image::Svg(svg),
                    environment_render::Picture::Other(text) => Image::Other(text),
                })
            };
            slot.call(CallKind::Auxiliary(RENDER), call, accept).await
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

fn accept_start(started: environment::Started, info: &EnvironmentInfo) -> Result<(u32, Started), String> {
    let environment::Started { episode, observations, functions, setup, seat } = started;
    check_seat(seat, info)?;
    if !observations.iter().any(|observation| observation.seat == seat) {
        return Err(format!("seat {seat} is to move and received no observation"));
    }
    let mut offered = BTreeSet::new();
    let functions = functions.into_iter().map(|offer| {
        check_seat(offer.seat, info)?;
        if !offered.insert(offer.seat) {
            return Err(format!("it lists the functions of seat {} twice", offer.seat));
        }
        Ok(SeatFunctions { seat: offer.seat, functions: info::functions(offer.functions)? })
    });
    let opening = Opening {
        functions: functions.collect::<Result<_, String>>()?,
        setup: setup.into_iter().map(|setup| (setup.tool, setup.bytes)).collect(),
        observations: accept_observations(observations, info)?,
    };
    Ok((episode, Started { opening, seat }))
}

fn accept_step(
    stepped: environment::Stepped,
    info: &EnvironmentInfo,
    totals: &mut [f64],
) -> Result<StepResult, String> {
    let environment::Stepped { observations, rewards, terminated, truncated, extras, seat } = stepped;
    let over = terminated || truncated;
    if !over {
        check_seat(seat, info)?;
    }
    let mut earned = if rewards.is_empty() { Vec::new() } else { vec![0.0; totals.len()] };
    for environment::SeatReward { seat, reward } in &rewards {
        check_seat(*seat, info)?;
        let (earned, total) = (&mut earned[*seat as usize], &mut totals[*seat as usize]);
        *earned += reward;
        *total += reward;
        // A sum in range does not bound its parts, and huge parts would make advantages infinite.
        if let Some(wrong) = [*reward, *earned, *total].iter().find(|number| !info.rewards.allows_part(**number)) {
            return Err(format!("seat {seat} earned {wrong} before the end, too much for the range {}", info.rewards));
        }
    }
    if over {
        check_totals(totals, info)?;
    }
    Ok(StepResult {
        observations: accept_observations(observations, info)?,
        rewards: rewards.into_iter().map(|reward| (reward.seat, reward.reward)).collect(),
        terminated,
        truncated,
        extras: convert::named_values(extras)?,
        seat,
    })
}

fn accept_observations(
    observations: Vec<environment::Observation>,
    info: &EnvironmentInfo,
) -> Result<Vec<(u32, Content)>, String> {
    for observation in &observations {
        check_seat(observation.seat, info)?;
    }
    Ok(observations.into_iter().map(|seen| (seen.seat, convert::content(seen.content))).collect())
}

fn check_totals(totals: &[f64], info: &EnvironmentInfo) -> Result<(), String> {
    match totals.iter().position(|total| !info.rewards.contains(*total)) {
        Some(seat) => Err(format!("seat {seat} earned {} in total, outside the range {}", totals[seat], info.rewards)),
        None => Ok(()),
    }
}

fn check_seat(seat: u32, info: &EnvironmentInfo) -> Result<(), String> {
    let seats = info.seats.len();
    if (seat as usize) < seats {
        Ok(())
    } else {
        Err(format!("seat {seat} does not exist; the environment has {seats}"))
    }
}
