//! Optional interfaces of the contract.

use crate::exports::ExportIndices;

/// Interface that a plugin may offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionalInterface {
    /// Save and restore of an environment's episodes.
    Snapshot,
    /// Canonical form of an environment's states.
    StateKey,
    /// View of an environment for rewards and teachers.
    Privileged,
    /// Expert actions of an environment.
    Oracle,
    /// Hints of an environment after a failure.
    Guidance,
    /// Rendering of an environment.
    Render,
    /// Save and restore of a tool's sessions.
    ToolSnapshot,
    /// View of a tool for rewards.
    FinalView,
}

impl OptionalInterface {
    /// Name in the contract.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "environment-snapshot",
            Self::StateKey => "environment-state-key",
            Self::Privileged => "environment-privileged",
            Self::Oracle => "environment-oracle",
            Self::Guidance => "environment-guidance",
            Self::Render => "environment-render",
            Self::ToolSnapshot => "tool-snapshot",
            Self::FinalView => "tool-final-view",
        }
    }

    /// Whether a component exports it.
    pub(crate) fn is_exported(self, indices: &ExportIndices) -> bool {
        match self {
            Self::Snapshot => indices.snapshot.is_some(),
            Self::StateKey => indices.state_key.is_some(),
            Self::Privileged => indices.privileged.is_some(),
            Self::Oracle => indices.oracle.is_some(),
            Self::Guidance => indices.guidance.is_some(),
            Self::Render => indices.render.is_some(),
            Self::ToolSnapshot => indices.tool_snapshot.is_some(),
            Self::FinalView => indices.final_view.is_some(),
        }
    }
}
