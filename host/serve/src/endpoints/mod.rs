//! The endpoints: one module for each protocol. Each translates between its protocol and the table of sessions, and
//! keeps nothing else.

mod detail;
mod json;
mod lookup;
pub mod mcp;
mod openenv;
mod ors;
mod speech;
mod tasks;
#[cfg(test)]
mod tests;
pub mod verltool;

use axum::Router;

use crate::config::ServeFile;
use crate::session::SessionTable;

pub use crate::body::{BodyLimits, RequestBody};
pub use crate::plain_error::PlainError;
pub use crate::protocol::Protocol;

/// The settings of an endpoint are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// VerlTool's table of tags.
    #[error(transparent)]
    VerlTool(#[from] verltool::TagError),
}

/// The routes of all endpoints over one table. Their paths do not overlap.
///
/// # Errors
/// If the settings of an endpoint are wrong.
pub fn router(sessions: &SessionTable, config: &ServeFile) -> Result<Router, EndpointError> {
    Ok(Router::new()
        .merge(tasks::router(sessions))
        .merge(openenv::router(sessions))
        .merge(ors::router(sessions))
        .merge(mcp::router(sessions))
        .route("/mcp", openenv::mcp(sessions))
        .merge(verltool::router(sessions, &config.verltool)?))
}

/// Entry point of the fuzz target `endpoint_openenv`: reads a message of a WebSocket.
#[cfg(fuzzing)]
pub fn read_openenv_message(text: &str) {
    openenv::read_message(text);
}
