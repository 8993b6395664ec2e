//! Sessions of tools.

use std::sync::Arc;

use gymkhana_record::{Call, Content, Cost, Function, NamedValue, Seed};
use gymkhana_registry::Kind;
use wasmtime::Store;
use wasmtime::component::Instance;

use super::{Snapshot, exported};
use crate::bindings::exports::gymkhana::plugin::tool;
use crate::exports::ToolExports;
use crate::instance::slot::{CallKind, Slot};
use crate::instance::store_data::StoreData;
use crate::unsandboxed::Unsandboxed;
use crate::{CallError, CallFuture, OptionalInterface, Plugin, Spent, ToolInfo, convert, info};

/// Calls that save and restore a session.
const SNAPSHOT: CallKind = CallKind::Auxiliary("tool-snapshot");

/// Answer of a tool to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Content.
    pub content: Content,
    /// Whether the call failed; the content then states the reason for the agent.
    pub failed: bool,
}

/// A session, in its own store unless the plugin is shared. Dropping it ends the session.
pub struct ToolSession {
    plugin: Plugin,
    slot: Slot<ToolExports>,
    handle: u32,
}

type Guest<'a> = crate::instance::slot::Guest<'a, ToolExports>;

impl Plugin {
    /// Returns the tool's description, requested once and cached.
    ///
    /// # Errors
    /// If the plugin is not a tool, fails, or returns a description that breaks the contract.
    pub fn tool_info(&self) -> CallFuture<'_, Arc<ToolInfo>> {
        Box::pin(async move {
            let describe = async || {
                let mut slot = open(self, Seed(0)).await?;
                let kind = CallKind::Auxiliary("describe");
                let call = async |guest: Guest<'_>| guest.exports.main.call_describe(guest.store).await;
                let outside = |code: &dyn Unsandboxed| code.describe_tool();
                slot.call_infallible(kind, call, outside, info::tool).await.map(Arc::new)
            };
            self.tool_cell().get_or_try_init(describe).await.cloned()
        })
    }

    /// Returns the tool's functions under these options.
    ///
    /// # Errors
    /// If the plugin is not a tool, fails, does not know an option, or offers functions that break the contract.
    pub fn functions<'a>(&'a self, options: &'a [NamedValue]) -> CallFuture<'a, Vec<Function>> {
        Box::pin(async move {
            let mut slot = open(self, Seed(0)).await?;
            let given = convert::named_value_params(options);
            let call = async |guest: Guest<'_>| guest.exports.main.call_functions(guest.store, &given).await;
            let outside = |code: &dyn Unsandboxed| code.functions(options);
            slot.call(CallKind::Auxiliary("functions"), call, outside, info::functions).await
        })
    }
}

/// Opens an instance for a session: its own, or a shared one.
async fn open(plugin: &Plugin, seed: Seed) -> Result<Slot<ToolExports>, CallError> {
    plugin.check_kind(Kind::Tool)?;
    let resolve = |store: &mut Store<StoreData>, instance: &Instance| {
        let main = exported(plugin, |indices| &indices.tool)?.load(&mut *store, instance)?;
        let snapshot = plugin
            .offers(OptionalInterface::ToolSnapshot)
            .then(|| exported(plugin, |indices| &indices.tool_snapshot)?.load(store, instance));
        let snapshot = snapshot.transpose()?;
        Ok(ToolExports { main, snapshot })
    };
    match plugin.shared_instances() {
        Some(shared) => Slot::open_shared(plugin, &shared.tools, seed, resolve).await,
        None => Slot::open(plugin, seed, resolve).await,
    }
}

impl ToolSession {
    /// Opens a session for one episode. `setup` is the data that the environment prepared for this tool. The tool
    /// receives the seed unchanged; its draws from the host come from streams under that seed.
    ///
    /// # Errors
    /// If the plugin is not a tool, rejects an option, or fails; or if no place becomes free in time.
    pub fn open<'a>(
        plugin: &'a Plugin,
        setup: Option<&'a [u8]>,
        options: &'a [NamedValue],
        seed: Seed,
    ) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let mut slot = open(plugin, seed).await?;
            let given = convert::named_value_params(options);
            let call = async |guest: Guest<'_>| guest.exports.main.call_open(guest.store, setup, &given, seed.0).await;
            let outside = |code: &dyn Unsandboxed| code.open(setup, options, seed);
            let handle = slot.call(CallKind::Advancing, call, outside, Ok).await?;
            slot.opened(handle);
            Ok(Self { plugin: plugin.clone(), slot, handle })
        })
    }

    /// Calls a function.
    ///
    /// # Errors
    /// If the tool fails: its state is then lost, and a new session must be opened.
    pub fn call<'a>(&'a mut self, call: &'a Call) -> CallFuture<'a, ToolOutput> {
        Box::pin(async move {
            let (handle, param) = (self.handle, convert::call_param(call));
            let outside = |code: &dyn Unsandboxed| code.call(handle, call);
            let call = async |guest: Guest<'_>| guest.exports.main.call_call(guest.store, handle, param).await;
            let accept = |answer: tool::Answer| {
                Ok(ToolOutput { content: convert::content(answer.content), failed: answer.failed })
            };
            self.slot.call(CallKind::Advancing, call, outside, accept).await
        })
    }

    /// Returns the values of the session that rewards may see.
    ///
    /// # Errors
    /// If the tool does not offer it, or fails.
    pub fn final_view(&mut self) -> CallFuture<'_, Vec<NamedValue>> {
        Box::pin(async move {
            let Self { slot, plugin, handle } = self;
            plugin.check_offers(OptionalInterface::FinalView)?;
            let call = async |guest: Guest<'_>| {
                let indices = exported(plugin, |indices| &indices.final_view)?;
                indices.load(&mut *guest.store, guest.component)?.call_final_view(guest.store, *handle).await
            };
            let outside = |code: &dyn Unsandboxed| code.final_view(*handle);
            let kind = CallKind::Auxiliary(OptionalInterface::FinalView.name());
            slot.call(kind, call, outside, convert::named_values).await
        })
    }

    /// Saves the whole state of the session, including the host side.
    ///
    /// # Errors
    /// If the tool does not offer it, or fails.
    pub fn snapshot(&mut self) -> CallFuture<'_, Snapshot> {
        Box::pin(async move {
            let Self { slot, plugin, handle } = self;
            plugin.check_offers(OptionalInterface::ToolSnapshot)?;
            let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_snapshot(guest.store, *handle).await;
            let outside = |code: &dyn Unsandboxed| code.snapshot(*handle);
            let bytes = slot.call(SNAPSHOT, call, outside, Ok).await?;
            Ok(Snapshot { bytes, host: slot.host_state(), totals: vec![] })
        })
    }

    /// Opens a new session in the state of a snapshot. With the seed of the first session it continues as that one
    /// would.
    ///
    /// # Errors
    /// If the tool does not offer it, fails, or cannot read the bytes.
    pub fn restore<'a>(plugin: &'a Plugin, snapshot: &'a Snapshot, seed: Seed) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let mut slot = open(plugin, snapshot.host.first_seed).await?;
            plugin.check_offers(OptionalInterface::ToolSnapshot)?;
            let bytes = &snapshot.bytes;
            let call = async |guest: Guest<'_>| guest.exports.snapshot()?.call_restore(guest.store, bytes).await;
            let outside = |code: &dyn Unsandboxed| code.restore(bytes);
            let handle = slot.call(SNAPSHOT, call, outside, Ok).await?;
            slot.opened(handle);
            slot.resume(&snapshot.host, plugin.name(), seed);
            Ok(Self { plugin: plugin.clone(), slot, handle })
        })
    }

    /// Cost of the last call; that of the first includes the start of an instance of its own.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.slot.cost()
    }

    /// Resources used by all calls so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.slot.spent()
    }

    /// Charges the resources that an earlier session of the same episode used, so that a tool which failed does not
    /// get a new budget.
    pub fn charge(&mut self, earlier: Spent) {
        self.slot.charge(earlier);
    }

    /// Sets the seed of the tool's draws from the host, from the next call on.
    pub fn reseed(&mut self, seed: Seed) {
        self.slot.reseed(self.plugin.name(), seed);
    }

    /// Closes the session in the tool.
    ///
    /// # Errors
    /// If the tool fails at that.
    pub fn close(mut self) -> CallFuture<'static, ()> {
        Box::pin(async move {
            let handle = self.handle;
            let call = async |guest: Guest<'_>| guest.exports.main.call_close(guest.store, handle).await;
            let outside = |code: &dyn Unsandboxed| code.close(handle);
            self.slot.call_infallible(CallKind::Auxiliary("close"), call, outside, Ok).await?;
            self.slot.closed(self.handle);
            Ok(())
        })
    }
}
