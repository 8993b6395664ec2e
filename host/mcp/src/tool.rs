//! A server as a tool: each session of the tool is a session with the server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gymkhana_record::{Call, FailureKind, NamedValue, Seed};
use gymkhana_registry::ErrorChain;
use gymkhana_sandbox::unsandboxed::{PluginResult, Unsandboxed, contract};
use gymkhana_sandbox::{CallError, OptionalInterface, Plugin};
use rmcp::model::JsonObject;
use rmcp::service::ServiceError;

use crate::answer::{answer, failed};
use crate::connection::{CallFailure, Connection};
use crate::{Endpoint, McpError, McpServer, ToolList, waiting};

/// The plugin of a server. Without a server, its sessions cannot be opened: a replay opens none.
///
/// # Errors
/// If the name in the run file cannot be that of a plugin.
pub fn plugin(list: ToolList, server: Option<McpServer>) -> Result<Plugin, McpError> {
    let (manifest, digest) = (list.manifest()?, list.digest()?);
    let tool = McpTool { list, server, sessions: Mutex::default(), opened: AtomicU32::new(0) };
    Ok(Plugin::unsandboxed(manifest, digest, Arc::new(tool)))
}

struct McpTool {
    list: ToolList,
    server: Option<McpServer>,
    /// Open sessions by handle. One in a call is taken out.
    sessions: Mutex<HashMap<u32, Connection>>,
    /// Number of sessions opened so far.
    opened: AtomicU32,
}

impl McpTool {
    fn sessions(&self) -> MutexGuard<'_, HashMap<u32, Connection>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self) -> PluginResult<&McpServer> {
        self.server.as_ref().ok_or_else(|| {
            let message = format!("the MCP server `{}` is not part of a replay", self.list.name);
            CallError::new(FailureKind::Fault, message)
        })
    }
}

impl Unsandboxed for McpTool {
    fn offers(&self, _interface: OptionalInterface) -> bool {
        false
    }

    fn replays_from_record(&self) -> bool {
        true
    }

    fn describe_tool(&self) -> PluginResult<contract::ToolInfo> {
        let summary = format!("MCP server {} {}", self.list.server.name, self.list.server.version);
        Ok(contract::ToolInfo { summary, options: vec![] })
    }

    fn functions(&self, _options: &[NamedValue]) -> PluginResult<Vec<contract::Function>> {
        let function = |tool: &crate::ListedTool| contract::Function {
            name: tool.function.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.to_string(),
            cost: 0.0,
        };
        Ok(self.list.tools.iter().map(function).collect())
    }

    fn open(&self, _setup: Option<&[u8]>, _options: &[NamedValue], _seed: Seed) -> PluginResult<u32> {
        let (connection, _) = Connection::open(self.server()?, Some(&self.list)).map_err(|error| not_open(&error))?;
        let handle = self.opened.fetch_add(1, Ordering::Relaxed);
        self.sessions().insert(handle, connection);
        Ok(handle)
    }

    fn call(&self, session: u32, call: &Call) -> PluginResult<contract::Answer> {
        let limits = self.server()?.limits;
        let Some(tool) = self.list.tools.iter().find(|tool| tool.function == call.name) else {
            return Ok(failed(format!("there is no function `{}`", call.name)));
        };
        let Ok(arguments) = serde_json::from_str::<JsonObject>(&call.arguments) else {
            return Ok(failed("the arguments are not a JSON object"));
        };
        let Some(connection) = self.sessions().remove(&session) else {
            return Err(CallError::new(FailureKind::Fault, format!("session {session} is not open")));
        };
        let name = tool.name.clone();
        let result = waiting::wait(limits.call, async move {
            let result = connection.call(&name, arguments).await;
            (connection, result)
        });
        // Without an answer in time the future, and with it the session, is gone.
        let (connection, result) = result.map_err(|error| not_open(&error))?.map_err(|silent| {
            CallError::new(FailureKind::Deadline, silent.of(format!("`{}`", self.list.name)).to_string())
        })?;
        let answered = match result {
            Ok(result) => answer(result),
            Err(CallFailure::Service(ServiceError::McpError(error))) => failed(error.message),
            Err(failure) => {
                let is_remote = !matches!(self.server()?.endpoint, Endpoint::Child(_));
                return Err(lost(&failure, limits.bytes, is_remote));
            }
        };
        self.sessions().insert(session, connection);
        Ok(answered)
    }

    fn close(&self, handle: u32) -> PluginResult<()> {
        self.forget(handle);
        Ok(())
    }

    fn forget(&self, handle: u32) {
        let connection = self.sessions().remove(&handle);
        drop(connection);
    }
}

/// The failure of a call after which the session is over. The call of an agent may end a child process; the end of a remote
/// connection is a fault outside of the episode.
fn lost(failure: &CallFailure, bytes: usize, is_remote: bool) -> CallError {
    let ended = if is_remote { FailureKind::Fault } else { FailureKind::Trap };
    match failure {
        CallFailure::TooLarge => {
            let message = format!("the server sent more than {} KiB before its answer was complete", bytes >> 10);
            CallError::new(FailureKind::ResultSize, message)
        }
        CallFailure::Unreadable(reason) => {
            CallError::new(FailureKind::Malformed, format!("the server's answer cannot be read: {reason}"))
        }
        CallFailure::Service(ServiceError::TransportClosed | ServiceError::Cancelled { .. }) => {
            CallError::new(ended, "the server closed the connection")
        }
        CallFailure::Service(ServiceError::TransportSend(error)) => {
            CallError::new(ended, format!("the connection failed: {}", error.error))
        }
        CallFailure::Service(_) => {
            CallError::new(FailureKind::Malformed, "the server's answer is not that of a finished call")
        }
    }
}

/// The failure of a session that did not open.
fn not_open(error: &McpError) -> CallError {
    let kind = match error {
        McpError::TooLarge { .. } => FailureKind::ResultSize,
        // The server is away, or the run cannot go on with other tools or on this machine.
        _ => FailureKind::Fault,
    };
    CallError::new(kind, format!("the MCP server was not ready: {}", ErrorChain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent's call may end a local server, whose end it then reads; a remote server is infrastructure.
    #[test]
    fn the_end_of_a_remote_connection_is_a_fault() {
        let kind = |is_remote| lost(&CallFailure::Service(ServiceError::TransportClosed), 1 << 10, is_remote).kind;
        assert_eq!((kind(true), kind(false)), (FailureKind::Fault, FailureKind::Trap));
        let too_large = |is_remote| lost(&CallFailure::TooLarge, 1 << 10, is_remote).kind;
        assert_eq!((too_large(true), too_large(false)), (FailureKind::ResultSize, FailureKind::ResultSize));
        let start = McpError::StartTime { limit: std::time::Duration::from_secs(1), stderr: String::new() };
        assert_eq!(not_open(&start).kind, FailureKind::Fault);
    }
}
