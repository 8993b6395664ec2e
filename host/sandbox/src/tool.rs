//! Sessions of tools.

use std::pin::pin;
use std::sync::Arc;

use gymkhana_record::{Call, Content, Cost, Function, NamedValue, Seed};
use wasmtime::Store;
use wasmtime::component::Instance;

use crate::functions::{Indices, ToolFunctions, offered};
use crate::live::{Entry, Slot, look, save};
use crate::room::Closing;
use crate::state::State;
use crate::{CallError, CallFuture, LogLine, Plugin, Snapshot, Spent, ToolInfo, convert, info};

/// What a tool answers to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The answer.
    pub content: Content,
    /// The call did not work; the content says why, in words that help the agent.
    pub failed: bool,
}

/// One session, in a store of its own unless the plugin is shared. Dropping it ends it.
pub struct ToolSession {
    plugin: Plugin,
    slot: Slot<ToolFunctions>,
    handle: u32,
}

impl Plugin {
    /// What the tool says of itself; asked once and remembered.
    ///
    /// # Errors
    /// If the plugin is no tool, fails, or describes what the contract forbids.
    pub fn tool_info(&self) -> CallFuture<'_, Arc<ToolInfo>> {
        Box::pin(async move {
            let describe = async || {
                let mut slot = open(self, Seed(0)).await?;
                let mut live = slot.enter(Entry::Look("describe")).await?;
                let outcome = live.meter.run(slot.wall(), pin!(live.guest.acts.call_describe(&mut live.store))).await;
                slot.leave_plain(live, outcome, info::tool).map(Arc::new)
            };
            self.tool_cell().get_or_try_init(describe).await.cloned()
        })
    }

    /// The tool's functions under these options.
    ///
    /// # Errors
    /// If the plugin is no tool, fails, does not know an option, or offers functions that no policy can be shown.
    pub fn functions<'a>(&'a self, options: &'a [NamedValue]) -> CallFuture<'a, Vec<Function>> {
        Box::pin(async move {
            let mut slot = open(self, Seed(0)).await?;
            let options = convert::named_value_params(options);
            let mut live = slot.enter(Entry::Look("functions")).await?;
            let outcome =
                live.meter.run(slot.wall(), pin!(live.guest.acts.call_functions(&mut live.store, &options))).await;
            slot.leave(live, outcome, info::functions)
        })
    }
}

/// An instance for a session: its own, or a place in one that is shared.
async fn open(plugin: &Plugin, seed: Seed) -> Result<Slot<ToolFunctions>, CallError> {
    let Indices { tool: acts, tool_snapshot: saves, .. } = plugin.indices();
    let acts = offered(acts.as_ref(), plugin, "tool")?;
    let functions = |store: &mut Store<State>, instance: &Instance| {
        let acts = acts.load(&mut *store, instance)?;
        let saves = saves.as_ref().map(|saves| saves.load(store, instance)).transpose()?;
        Ok(ToolFunctions { acts, saves })
    };
    match plugin.rooms() {
        Some(rooms) => Slot::open_shared(plugin, &rooms.tools, seed, functions).await,
        None => Slot::open(plugin, seed, functions).await,
    }
}

/// Tells the tool that a session ends.
pub(crate) fn close<'a>(guest: &'a ToolFunctions, store: &'a mut Store<State>, handle: u32) -> Closing<'a> {
    Box::pin(guest.acts.call_close(store, handle))
}

impl ToolSession {
    /// Opens a session for one episode. `setup` is what the environment prepared for this tool. The seed goes to the
    /// tool as it is, and what the tool draws from the host comes from streams below it.
    ///
    /// # Errors
    /// If the plugin is no tool, refuses an option, or fails; or if no place becomes free in time.
    pub fn open<'a>(
        plugin: &'a Plugin,
        setup: Option<&'a [u8]>,
        options: &'a [NamedValue],
        seed: Seed,
    ) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let mut slot = open(plugin, seed).await?;
            let options = convert::named_value_params(options);
            let mut live = slot.enter(Entry::Act).await?;
            let outcome = live
                .meter
                .run(slot.wall(), pin!(live.guest.acts.call_open(&mut live.store, setup, &options, seed.0)))
                .await;
            let handle = slot.leave(live, outcome, Ok)?;
            slot.handle = Some(handle);
            Ok(Self { plugin: plugin.clone(), slot, handle })
        })
    }

    /// Calls a function.
    ///
    /// # Errors
    /// If the tool fails: its state is then gone, and a new session must be opened.
    pub fn call<'a>(&'a mut self, call: &'a Call) -> CallFuture<'a, Answer> {
        Box::pin(async move {
            let mut live = self.slot.enter(Entry::Act).await?;
            let outcome = live
                .meter
                .run(
                    self.slot.wall(),
                    pin!(live.guest.acts.call_call(&mut live.store, self.handle, convert::call_param(call))),
                )
                .await;
            self.slot.leave(live, outcome, |answer| {
                Ok(Answer { content: convert::content(answer.content), failed: answer.failed })
            })
        })
    }

    /// What rewards may see of the session.
    ///
    /// # Errors
    /// If the tool does not offer it, or fails.
    pub fn final_view(&mut self) -> CallFuture<'_, Vec<NamedValue>> {
        Box::pin(async move {
            let accept = convert::named_values;
            look!(self.slot, self.plugin, final_view, "tool-final-view", call_final_view(self.handle), accept)
        })
    }

    /// The session's whole state, the host's side included.
    ///
    /// # Errors
    /// If the tool does not offer it, or fails.
    pub fn snapshot(&mut self) -> CallFuture<'_, Snapshot> {
        Box::pin(async move {
            let bytes = save!(self.slot, self.plugin, tool_snapshot, "tool-snapshot", call_snapshot(self.handle))?;
            Ok(Snapshot { bytes, host: self.slot.host_side(), totals: vec![] })
        })
    }

    /// A new session in the state of a snapshot. With the seed of the first session it goes on as that one would.
    ///
    /// # Errors
    /// If the tool does not offer it, fails, or cannot read the bytes.
    pub fn restore<'a>(plugin: &'a Plugin, snapshot: &'a Snapshot, seed: Seed) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let mut slot = open(plugin, snapshot.host.first).await?;
            let handle = save!(slot, plugin, tool_snapshot, "tool-snapshot", call_restore(&snapshot.bytes))?;
            slot.handle = Some(handle);
            slot.resume(&snapshot.host, plugin.name(), seed);
            Ok(Self { plugin: plugin.clone(), slot, handle })
        })
    }

    /// What the last call used; the first pays for the start of an instance of its own.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.slot.cost()
    }

    /// What all calls used so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.slot.spent()
    }

    /// Counts what an earlier session of the same episode used, so that a tool which fails gets no new budget.
    pub fn charge(&mut self, earlier: Spent) {
        self.slot.charge(earlier);
    }

    /// From the next call on, what the tool draws from the host comes from streams below this seed.
    pub fn reseed(&mut self, seed: Seed) {
        self.slot.reseed(self.plugin.name(), seed);
    }

    /// Takes what the tool logged and was not taken yet.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        self.slot.take_log()
    }

    /// Tells the tool that the session ends.
    ///
    /// # Errors
    /// If the tool fails at that.
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
