//! Where a plugin's functions are, found once and not at each call.

use gymkhana_record::FailureKind;
use gymkhana_registry::contract;
use wasmtime::component::InstancePre;

use crate::bindings::exports::gymkhana::plugin as interfaces;
use crate::state::State;
use crate::{CallError, Plugin};

/// The interfaces of a component.
pub(crate) struct Indices {
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

impl Indices {
    pub fn find(linked: &InstancePre<State>, exports: &[String]) -> wasmtime::Result<Self> {
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
    linked: &'a InstancePre<State>,
    exports: &'a [String],
}

impl Find<'_> {
    /// An interface that is not exported is none; one that is must be whole.
    fn interface<I>(
        &self,
        name: &str,
        indices: impl FnOnce(&InstancePre<State>) -> wasmtime::Result<I>,
    ) -> wasmtime::Result<Option<I>> {
        let full = format!("{}/{name}@{}", contract::PACKAGE, contract::VERSION);
        self.exports.contains(&full).then(|| indices(self.linked)).transpose()
    }
}

/// The functions of a live instance that are called again and again: `A`'s act, `S`'s save it, where it offers that.
pub(crate) struct Functions<A, S> {
    pub acts: A,
    pub saves: Option<S>,
}

/// Those of an environment.
pub(crate) type EnvironmentFunctions =
    Functions<interfaces::environment::Guest, interfaces::environment_snapshot::Guest>;

/// Those of a tool.
pub(crate) type ToolFunctions = Functions<interfaces::tool::Guest, interfaces::tool_snapshot::Guest>;

/// The indices of an interface, or the refusal that says that the plugin lacks it.
pub(crate) fn offered<'a, I>(indices: Option<&'a I>, plugin: &Plugin, interface: &str) -> Result<&'a I, CallError> {
    indices.ok_or_else(|| {
        let name = &plugin.manifest().name;
        CallError::new(FailureKind::Refused, format!("plugin `{name}` does not offer the interface `{interface}`"))
    })
}
