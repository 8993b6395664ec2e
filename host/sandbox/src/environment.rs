//! Episodes of environments.

use std::pin::pin;
use std::sync::Arc;

use gymkhana_record::{Call, Content, Cost, NamedValue, Opening, Part, SeatFunctions, Seed, TaskRef};
use wasmtime::Store;
use wasmtime::component::Instance;

use crate::bindings::exports::gymkhana::plugin::{environment, environment_oracle, environment_render};
use crate::convert::Parts;
use crate::functions::{EnvironmentFunctions, Indices, offered};
use crate::live::{Entry, HostSide, Slot, look, save};
use crate::room::Closing;
use crate::state::State;
use crate::{CallError, CallFuture, EnvironmentInfo, LogLine, Plugin, SplitInfo, convert, info};

/// How an episode began.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// What the environment showed, offered and prepared.
    pub opening: Opening,
    /// Whose turn it is.
    pub seat: u32,
}

/// What the seat to move does.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// A message without a call of the environment's functions.
    Message(&'a [Part]),
    /// One of the functions that the environment offered to this seat.
    Call(&'a Call),
    /// Anything else.
    Other(&'a [Part]),
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// What is seen: seat and content.
    pub observations: Vec<(u32, Content)>,
    /// What was earned: seat and reward.
    pub rewards: Vec<(u32, f64)>,
    /// The episode is over.
    pub terminated: bool,
    /// The episode was cut off.
    pub truncated: bool,
    /// Facts for records and rewards; policies never see them.
    pub extras: Vec<NamedValue>,
    /// Whose turn it is; any number once the episode is over.
    pub seat: u32,
}

/// What the expert does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// It says this.
    Message(String),
    /// It calls these functions in one turn. Ids are empty.
    Calls(Vec<Call>),
}

/// A picture for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picture {
    /// Plain text.
    Text(String),
    /// SVG.
    Svg(String),
    /// Something else, described in text.
    Other(String),
}

/// A plugin's state and the host's side of it: the position of its random streams, its clock, and what each seat of
/// an environment earned so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// What the plugin wrote.
    pub bytes: Vec<u8>,
    pub(crate) host: HostSide,
    pub(crate) totals: Vec<f64>,
}

/// One episode, in a store of its own unless the plugin is shared. Dropping it ends it.
pub struct EnvironmentEpisode {
    plugin: Plugin,
    info: Arc<EnvironmentInfo>,
    slot: Slot<EnvironmentFunctions>,
    handle: u32,
    /// What each seat earned so far.
    totals: Vec<f64>,
}

impl Plugin {
    /// What the environment says of itself; asked once and remembered.
    ///
    /// # Errors
    /// If the plugin is no environment, fails, or describes what the contract forbids.
    pub fn environment_info(&self) -> CallFuture<'_, Arc<EnvironmentInfo>> {
        Box::pin(async move {
            let describe = async || {
                let mut slot = open(self, Seed(0)).await?;
                let mut live = slot.enter(Entry::Look("describe")).await?;
                let outcome = live.meter.run(slot.wall(), pin!(live.guest.acts.call_describe(&mut live.store))).await;
                slot.leave_plain(live, outcome, info::environment).map(Arc::new)
            };
            self.environment_cell().get_or_try_init(describe).await.cloned()
        })
    }

    /// The environment's splits under these options.
    ///
    /// # Errors
    /// If the plugin is no environment, fails, or does not know an option.
    pub fn splits<'a>(&'a self, options: &'a [NamedValue]) -> CallFuture<'a, Vec<SplitInfo>> {
        Box::pin(async move {
            let mut slot = open(self, Seed(0)).await?;
            let options = convert::named_value_params(options);
            let mut live = slot.enter(Entry::Look("splits")).await?;
            let outcome =
                live.meter.run(slot.wall(), pin!(live.guest.acts.call_splits(&mut live.store, &options))).await;
            slot.leave(live, outcome, info::splits)
        })
    }
}

/// An instance for an episode: its own, or a place in one that is shared.
async fn open(plugin: &Plugin, seed: Seed) -> Result<Slot<EnvironmentFunctions>, CallError> {
    let Indices { environment: acts, snapshot: saves, .. } = plugin.indices();
    let acts = offered(acts.as_ref(), plugin, "environment")?;
    let functions = |store: &mut Store<State>, instance: &Instance| {
        let acts = acts.load(&mut *store, instance)?;
        let saves = saves.as_ref().map(|saves| saves.load(store, instance)).transpose()?;
        Ok(EnvironmentFunctions { acts, saves })
    };
    match plugin.rooms() {
        Some(rooms) => Slot::open_shared(plugin, &rooms.environments, seed, functions).await,
        None => Slot::open(plugin, seed, functions).await,
    }
}

/// Tells the environment that an episode ends.
pub(crate) fn close<'a>(guest: &'a EnvironmentFunctions, store: &'a mut Store<State>, handle: u32) -> Closing<'a> {
    Box::pin(guest.acts.call_close(store, handle))
}

impl EnvironmentEpisode {
    /// Starts an episode. The seed goes to the environment as it is, and what the environment draws from the host
    /// comes from streams below it.
    ///
    /// # Errors
    /// If the plugin is no environment, refuses the task or an option, fails, or returns what the contract forbids;
    /// or if no place becomes free in time.
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
            let mut live = slot.enter(Entry::Act).await?;
            let outcome = live
                .meter
                .run(slot.wall(), pin!(live.guest.acts.call_start(&mut live.store, task, &options, seed.0)))
                .await;
            let (handle, started) = slot.leave(live, outcome, |started| accept_start(started, &info))?;
            slot.handle = Some(handle);
            let totals = vec![0.0; info.seats.len()];
            Ok((Self { plugin: plugin.clone(), info, slot, handle, totals }, started))
        })
    }

    /// Acts for a seat.
    ///
    /// # Errors
    /// If the environment fails or returns what the contract forbids: it is then gone.
    pub fn step<'a>(&'a mut self, seat: u32, deed: Action<'a>) -> CallFuture<'a, StepResult> {
        Box::pin(async move {
            let parts;
            let deed = match deed {
                Action::Message(content) => {
                    parts = Parts::of(content);
                    environment::Deed::Message(parts.as_slice())
                }
                Action::Call(call) => environment::Deed::Call(convert::call_param(call)),
                Action::Other(content) => {
                    parts = Parts::of(content);
                    environment::Deed::Other(parts.as_slice())
                }
            };
            let mut live = self.slot.enter(Entry::Act).await?;
            let outcome = live
                .meter
                .run(
                    self.slot.wall(),
                    pin!(live.guest.acts.call_step(&mut live.store, self.handle, environment::Action { seat, deed })),
                )
                .await;
            let Self { slot, info, totals, .. } = self;
            slot.leave(live, outcome, |stepped| accept_step(stepped, info, totals))
        })
    }

    /// Whether what each seat earned so far is in the range that the environment promised. A step that ends the
    /// episode is held against it; this is for an episode that somebody else ends.
    ///
    /// # Errors
    /// If a seat's rewards are outside.
    pub fn check_totals(&self) -> Result<(), CallError> {
        check_totals(&self.totals, &self.info).map_err(CallError::malformed)
    }

    /// The episode's whole state, the host's side included.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn snapshot(&mut self) -> CallFuture<'_, Snapshot> {
        Box::pin(async move {
            let bytes = save!(self.slot, self.plugin, snapshot, "environment-snapshot", call_snapshot(self.handle))?;
            Ok(Snapshot { bytes, host: self.slot.host_side(), totals: self.totals.clone() })
        })
    }

    /// A new episode in the state of a snapshot. With the seed of the first episode it goes on as that one would;
    /// with another, what it draws from the host from here on is new.
    ///
    /// # Errors
    /// If the environment does not offer it, fails, or cannot read the bytes.
    pub fn restore<'a>(plugin: &'a Plugin, snapshot: &'a Snapshot, seed: Seed) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let info = plugin.environment_info().await?;
            let mut slot = open(plugin, snapshot.host.first).await?;
            let handle = save!(slot, plugin, snapshot, "environment-snapshot", call_restore(&snapshot.bytes))?;
            slot.handle = Some(handle);
            slot.resume(&snapshot.host, plugin.name(), seed);
            Ok(Self { plugin: plugin.clone(), info, slot, handle, totals: snapshot.totals.clone() })
        })
    }

    /// Puts the episode back into the state of a snapshot, in the store that it has: for another attempt from there.
    ///
    /// # Errors
    /// If the environment does not offer it, fails, or cannot read the bytes; then the episode is where it was.
    pub fn rewind<'a>(&'a mut self, snapshot: &'a Snapshot) -> CallFuture<'a, ()> {
        Box::pin(async move {
            let Self { slot, plugin, .. } = self;
            let handle = save!(slot, plugin, snapshot, "environment-snapshot", call_restore(&snapshot.bytes))?;
            let left = std::mem::replace(&mut self.handle, handle);
            self.slot.handle = Some(handle);
            self.slot.rewind(&snapshot.host);
            self.totals.clone_from(&snapshot.totals);
            let mut live = self.slot.enter(Entry::Look("close")).await?;
            let outcome =
                live.meter.run(self.slot.wall(), pin!(live.guest.acts.call_close(&mut live.store, left))).await;
            self.slot.leave_plain(live, outcome, Ok)
        })
    }

    /// From the next call on, what the environment draws from the host comes from streams below this seed.
    pub fn reseed(&mut self, seed: Seed) {
        self.slot.reseed(self.plugin.name(), seed);
    }

    /// A canonical form of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn state_key(&mut self) -> CallFuture<'_, Vec<u8>> {
        Box::pin(async move {
            look!(self.slot, self.plugin, state_key, "environment-state-key", call_state_key(self.handle), Ok)
        })
    }

    /// What rewards and teachers may see and a policy never does.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn privileged(&mut self) -> CallFuture<'_, Vec<NamedValue>> {
        Box::pin(async move {
            let accept = convert::named_values;
            look!(self.slot, self.plugin, privileged, "environment-privileged", call_privileged(self.handle), accept)
        })
    }

    /// The expert's next turn for the seat to move. `tools` names the functions that the run's tools offer, and
    /// `results` holds the answers to the calls of the expert's previous turn, as text.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn advise<'a>(&'a mut self, tools: &'a [String], results: &'a [String]) -> CallFuture<'a, Advice> {
        Box::pin(async move {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let results: Vec<&str> = results.iter().map(String::as_str).collect();
            let accept = |advice| {
                Ok(match advice {
                    environment_oracle::Advice::Message(text) => Advice::Message(text),
                    environment_oracle::Advice::Calls(calls) => Advice::Calls(convert::calls(calls)),
                })
            };
            let (slot, handle) = (&mut self.slot, self.handle);
            look!(slot, self.plugin, oracle, "environment-oracle", call_advise(handle, &tools, &results), accept)
        })
    }

    /// A hint after an attempt that failed.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn guidance(&mut self) -> CallFuture<'_, Content> {
        Box::pin(async move {
            let accept = |parts| Ok(convert::content(parts));
            look!(self.slot, self.plugin, guidance, "environment-guidance", call_guidance(self.handle), accept)
        })
    }

    /// A picture for people.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn render(&mut self) -> CallFuture<'_, Picture> {
        Box::pin(async move {
            let accept = |picture| {
                Ok(match picture {
                    environment_render::Picture::Text(text) => Picture::Text(text),
                    environment_render::Picture::Svg(svg) => Picture::Svg(svg),
                    environment_render::Picture::Other(text) => Picture::Other(text),
                })
            };
            look!(self.slot, self.plugin, render, "environment-render", call_render(self.handle), accept)
        })
    }

    /// What the last call used; the first pays for the start of an instance of its own.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.slot.cost()
    }

    /// Takes what the environment logged and was not taken yet.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        self.slot.take_log()
    }

    /// Tells the environment that the episode ends.
    ///
    /// # Errors
    /// If the environment fails at that.
    pub fn close(mut self) -> CallFuture<'static, ()> {
        Box::pin(async move {
            let mut live = self.slot.enter(Entry::Look("close")).await?;
            let outcome =
                live.meter.run(self.slot.wall(), pin!(live.guest.acts.call_close(&mut live.store, self.handle))).await;
            self.slot.handle = None;
            self.slot.leave_plain(live, outcome, Ok)
        })
    }
}

fn accept_start(started: environment::Started, info: &EnvironmentInfo) -> Result<(u32, Started), String> {
    let environment::Started { episode, observations, functions, setup, seat } = started;
    check_seat(seat, info)?;
    if !observations.iter().any(|observation| observation.seat == seat) {
        return Err(format!("seat {seat} is to move and was shown nothing"));
    }
    let functions = functions.into_iter().map(|offer| {
        check_seat(offer.seat, info)?;
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
        // Finite numbers may have a sum that is not.
        if let Some(wrong) = [*reward, *earned, *total].iter().find(|number| !number.is_finite()) {
            return Err(format!("seat {seat} earned {wrong}"));
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
        Some(seat) => Err(format!("seat {seat} earned {} in all, outside the range {}", totals[seat], info.rewards)),
        None => Ok(()),
    }
}

fn check_seat(seat: u32, info: &EnvironmentInfo) -> Result<(), String> {
    let seats = info.seats.len();
    if (seat as usize) < seats { Ok(()) } else { Err(format!("there is no seat {seat} among {seats}")) }
}
