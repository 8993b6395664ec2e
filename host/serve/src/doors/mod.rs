//! The doors: one module for each protocol. A door translates between its protocol and the table of sessions, and keeps
//! nothing else.

mod body;
mod detail;
mod json;
mod lookup;
mod openenv;
mod ors;
mod plain_error;
mod tasks;
#[cfg(test)]
mod tests;
pub mod verltool;

use axum::Router;

use crate::config::ServeFile;
use crate::session::SessionTable;

pub use body::{BodyLimits, RequestBody};
pub use plain_error::PlainError;

/// The settings of a door are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DoorError {
    /// VerlTool's table of tags.
    #[error(transparent)]
    VerlTool(#[from] verltool::TagError),
}

/// A protocol, in records, metrics and traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// OpenEnv's server.
    OpenEnv,
    /// Open Reward Standard.
    Ors,
    /// Model Context Protocol.
    Mcp,
    /// VerlTool's tool server.
    VerlTool,
}

impl Door {
    /// All doors.
    pub const ALL: [Self; 4] = [Self::OpenEnv, Self::Ors, Self::Mcp, Self::VerlTool];

    /// The word in metrics, traces and configuration.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::OpenEnv => "openenv",
            Self::Ors => "ors",
            Self::Mcp => "mcp",
            Self::VerlTool => "verltool",
        }
    }
}

/// The routes of all doors over one table. Their paths do not overlap.
///
/// # Errors
/// If the settings of a door are wrong.
pub fn router(sessions: &SessionTable, config: &ServeFile) -> Result<Router, DoorError> {
    Ok(Router::new()
        .merge(tasks::router(sessions))
        .merge(openenv::router(sessions))
        .merge(ors::router(sessions))
        .route("/mcp", openenv::mcp(sessions))
        .merge(verltool::router(sessions, &config.verltool)?))
}
