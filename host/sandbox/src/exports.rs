//! Indices of a component's exported functions, resolved once per plugin instead of at each call.

use gymkhana_registry::contract;
use wasmtime::component::InstancePre;
use wasmtime::{Error, Result, Store};

use crate::bindings::exports::gymkhana::plugin as interfaces;
use crate::instance::shared::{CloseHandle, Closing};
use crate::instance::store_data::StoreData;

/// Indices of the interfaces that a component exports.
pub(crate) struct ExportIndices {
    pub environment: Option<interfaces::environment::GuestIndices>,
    pub snapshot: Option<interfaces::environment_snapshot::GuestIndices>,
    pub state_key: Option<interfaces::environment_state_key::GuestIndices>,
    pub privileged: Option<interfaces::environment_privileged::GuestIndices>,
    pub oracle: Option<interfaces::environment_oracle::GuestIndices>,
    pub guidance: Option<interfaces::environment_guidance::GuestIndices>,
    pub render: Option<interfaces::environment_render::GuestIndices>,
    pub tool: Option<interfaces::tool::GuestIndices>,
    pub tool_snapshot: Option<interfaces::tool_snapshot::GuestIndices>,
    pub final_view: Option<interfaces::tool_final_view::GuestIndices>,
    pub reward: Option<interfaces::reward::GuestIndices>,
}

impl ExportIndices {
    pub fn find(linked: &InstancePre<StoreData>, exports: &[String]) -> Result<Self> {
        let find = Find { linked, exports };
        Ok(Self {
            environment: find.interface("environment", interfaces::environment::GuestIndices::new)?,
            snapshot: find.interface("environment-snapshot", interfaces::environment_snapshot::GuestIndices::new)?,
            state_key: find.interface("environment-state-key", interfaces::environment_state_key::GuestIndices::new)?,
            privileged: find
                .interface("environment-privileged", interfaces::environment_privileged::GuestIndices::new)?,
            oracle: find.interface("environment-oracle", interfaces::environment_oracle::GuestIndices::new)?,
            guidance: find.interface("environment-guidance", interfaces::environment_guidance::GuestIndices::new)?,
            render: find.interface("environment-render", interfaces::environment_render::GuestIndices::new)?,
            tool: find.interface("tool", interfaces::tool::GuestIndices::new)?,
            tool_snapshot: find.interface("tool-snapshot", interfaces::tool_snapshot::GuestIndices::new)?,
            final_view: find.interface("tool-final-view", interfaces::tool_final_view::GuestIndices::new)?,
            reward: find.interface("reward", interfaces::reward::GuestIndices::new)?,
        })
    }
}

struct Find<'a> {
    linked: &'a InstancePre<StoreData>,
    exports: &'a [String],
}

impl Find<'_> {
    /// Indices of an interface: `None` if the component does not export it, an error if it exports only a part of it.
    fn interface<I>(
        &self,
        name: &str,
        indices: impl FnOnce(&InstancePre<StoreData>) -> Result<I>,
    ) -> Result<Option<I>> {
        let full = format!("{}/{name}@{}", contract::PACKAGE, contract::VERSION);
        self.exports.contains(&full).then(|| indices(self.linked)).transpose()
    }
}

/// Functions of a live instance that are resolved when it opens, since they are called often: those of the main
/// interface and those that save and restore it.
pub(crate) struct ExportSet<M, S> {
    pub main: M,
    pub snapshot: Option<S>,
}

impl<M, S> ExportSet<M, S> {
    /// Functions that save and restore the instance.
    pub fn snapshot(&self) -> Result<&S> {
        self.snapshot.as_ref().ok_or_else(|| Error::msg("the instance exports no snapshot functions"))
    }
}

/// Functions of an environment.
pub(crate) type EnvironmentExports = ExportSet<interfaces::environment::Guest, interfaces::environment_snapshot::Guest>;

/// Functions of a tool.
pub(crate) type ToolExports = ExportSet<interfaces::tool::Guest, interfaces::tool_snapshot::Guest>;

impl CloseHandle for EnvironmentExports {
    fn close<'a>(&'a self, store: &'a mut Store<StoreData>, handle: u32) -> Closing<'a> {
        Box::pin(self.main.call_close(store, handle))
    }
}

impl CloseHandle for ToolExports {
    fn close<'a>(&'a self, store: &'a mut Store<StoreData>, handle: u32) -> Closing<'a> {
        Box::pin(self.main.call_close(store, handle))
    }
}
