//! One session with a server: handshake, list of tools, calls.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_net::{Reachable, check_literal, checked_client, reachable};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, JsonObject,
    ProtocolVersion, ServerPeerInfo,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use serde_json::Value;

use crate::checked_client::CheckedClient;
use crate::limited_reader::{Allowance, LimitedReader};
use crate::message_check::{CheckedReader, MessageFault};
use crate::process::{ServerProcess, StartedProcess, StderrEnd};
use crate::server::{Endpoint, McpServer, RemoteServer};
use crate::tool_list::{ServerName, ToolList};
use crate::{McpError, waiting};

/// Limit on the reason of a failed start, in bytes: it may quote the server.
const MAX_REASON_BYTES: usize = 500;

/// An open session. Dropping it kills the server's processes, or ends the session at the URL.
pub(crate) struct Connection {
    service: Service,
    /// Held for its end; `None` for a server at a URL.
    _process: Option<ServerProcess>,
    allowance: Allowance,
    fault: MessageFault,
    bytes: usize,
}

type Service = RunningService<RoleClient, ClientConfig>;

/// A call without a result.
pub(crate) enum CallFailure {
    /// The server sent more than the limit.
    TooLarge,
    /// The server's answer cannot be read, for this reason.
    Unreadable(String),
    /// The session is over or answered against the protocol.
    Service(ServiceError),
}

/// Starts a server, reads its tools and stops it. Blocks for as long as that takes.
///
/// # Errors
/// If the server cannot be started or reached, is too slow, sends too much, or its tools have unusable names.
pub fn tools_of(server: &McpServer) -> Result<ToolList, McpError> {
    Connection::open(server, None).map(|(_, list)| list)
}

impl Connection {
    /// Opens a session and reads the list of tools. `expected` is the list that the run began with, whose protocol
    /// version is used again. Blocks until the session is open or the time for the start is over.
    ///
    /// # Errors
    /// As [`tools_of`], or if the tools differ from the expected ones.
    pub(crate) fn open(server: &McpServer, expected: Option<&ToolList>) -> Result<(Self, ToolList), McpError> {
        let stderr = StderrEnd::default();
        let (owned, kept) = (server.clone(), Arc::clone(&stderr));
        let protocol = expected.map(|list| list.protocol.clone());
        let opened = waiting::wait(server.limits.start, async move { start(&owned, protocol, kept).await })?;
        let late = |_| McpError::StartTime { limit: server.limits.start, stderr: end_of(&stderr) };
        let (connection, list) = opened.map_err(late)??;
        expected.map_or(Ok(()), |expected| expected.check(&list))?;
        Ok((connection, list))
    }

    /// Calls a tool, without a deadline.
    pub(crate) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, CallFailure> {
        self.allowance.renew(self.bytes);
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        // Requests of the server for input from a person are not answered.
        let answer = self.service.peer().call_tool(request).await;
        answer.map_err(|error| match self.fault.reason().or_else(|| unreadable_body(&error)) {
            _ if self.allowance.is_exceeded() || is_too_large(&error) => CallFailure::TooLarge,
            Some(reason) => CallFailure::Unreadable(reason),
            None => CallFailure::Service(error),
        })
    }
}

/// Opens a session and reads the list of tools.
async fn start(
    server: &McpServer,
    protocol: Option<String>,
    stderr: StderrEnd,
) -> Result<(Connection, ToolList), McpError> {
    let (allowance, fault) = (Allowance::default(), MessageFault::default());
    let bytes = server.limits.bytes;
    allowance.renew(bytes);
    let lifecycle = lifecycle(protocol.as_deref());
    let (served, process) = match &server.endpoint {
        Endpoint::Child(child) => {
            let StartedProcess { process, input, output } = ServerProcess::start(child, Arc::clone(&stderr))?;
            let output = LimitedReader::new(output, allowance.clone());
            let output = CheckedReader::new(output, fault.clone());
            let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(bytes);
            (serve_client_with_lifecycle(identity(), transport, lifecycle).await, Some(process))
        }
        Endpoint::Remote(remote) => {
            let client = CheckedClient::new(checked_client(reach(remote)?)?, fault.clone());
            let transport = StreamableHttpClientTransport::with_client(client, http_config(remote, bytes)?);
            (serve_client_with_lifecycle(identity(), transport, lifecycle).await, None)
        }
    };
    let failed = |why: String| match fault.reason() {
        _ if allowance.is_exceeded() => McpError::TooLarge { limit: bytes },
        Some(reason) => {
            McpError::Start { why: format!("its answer cannot be read: {reason}"), stderr: end_of(&stderr) }
        }
        None => McpError::Start { why: short(&why), stderr: end_of(&stderr) },
    };
    let service = served.map_err(|error| failed(describe(&error)))?;
    let tools = service.peer().list_all_tools().await.map_err(|error| failed(describe_list(&error)))?;
    let (name, protocol) = service.peer_info().map_or_else(Default::default, |info| named(&info));
    let list = ToolList::new(server, name, protocol, tools)?;
    Ok((Connection { service, _process: process, allowance, fault, bytes }, list))
}

/// The way in which a session begins: with the known protocol version, or with the newest one that the server speaks.
fn lifecycle(protocol: Option<&str>) -> ClientLifecycleMode {
    let newest = ProtocolVersion::V_2026_07_28;
    match protocol {
        Some(known) if known == newest.as_str() => ClientLifecycleMode::Discover { preferred_versions: vec![newest] },
        Some(_) => ClientLifecycleMode::Initialize,
        None => ClientLifecycleMode::Auto {
            preferred_versions: vec![newest],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
    }
}

/// Name and version of this client. It offers the server nothing: no files, no model, no questions to a person.
fn identity() -> ClientConfig {
    let name = Implementation::new("gymkhana", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), name).with_protocol_version(ProtocolVersion::V_2025_11_25)
}

/// Addresses that the URL may lead to.
fn reach(remote: &RemoteServer) -> Result<Reachable, McpError> {
    let secret = remote.secret.as_ref().map(|(_, secret)| secret);
    let reachable = Reachable { private: remote.private, ..reachable(&remote.url, secret) };
    check_literal(&remote.url, reachable)?;
    Ok(reachable)
}

fn http_config(remote: &RemoteServer, bytes: usize) -> Result<StreamableHttpClientTransportConfig, McpError> {
    let mut headers = HashMap::new();
    if let Some((name, secret)) = &remote.secret {
        let wrong = || McpError::Header(name.clone());
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    // A new session instead of an expired one would lack its state.
    Ok(StreamableHttpClientTransportConfig::with_uri(remote.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(bytes)
        .max_json_response_size(bytes)
        .reinit_on_expired_session(false))
}

/// The server's own name and version, and the protocol version.
fn named(info: &ServerPeerInfo) -> (ServerName, String) {
    let own = info.server_info.as_ref();
    let own = own.map(|own| ServerName { name: own.name.clone(), version: own.version.clone() });
    (own.unwrap_or_default(), info.protocol_version.as_str().to_owned())
}

/// Why an answer over HTTP cannot be read.
fn unreadable_body(error: &ServiceError) -> Option<String> {
    http_causes(error).find_map(|error| match error {
        StreamableHttpError::UnexpectedServerResponse(why) => Some(why.clone().into_owned()),
        _ => None,
    })
}

/// Errors of HTTP among the causes of an error.
fn http_causes(error: &ServiceError) -> impl Iterator<Item = &StreamableHttpError<reqwest::Error>> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| (*error).source()).filter_map(|error| error.downcast_ref())
}

/// Whether an answer over HTTP was larger than the limit.
fn is_too_large(error: &ServiceError) -> bool {
    http_causes(error).any(|error| matches!(error, StreamableHttpError::ResponseBodyTooLarge { .. }))
}

/// The reason of a failed handshake, without the transport's type names.
fn describe(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::TransportError { error, .. } => {
            let mut cause: &dyn Error = &*error.error;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            cause.to_string()
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => describe(fallback),
        ClientInitializeError::ExpectedInitResult(Some(result)) => {
            let missing = missing_field(&serde_json::to_value(result).unwrap_or_default());
            format!("its answer to `initialize` {}", missing.unwrap_or("is that of another request"))
        }
        ClientInitializeError::ExpectedInitResponse(_) => "it did not answer `initialize`".to_owned(),
        other => other.to_string(),
    }
}

/// The first field that the result of `initialize` lacks.
fn missing_field(result: &Value) -> Option<&'static str> {
    let lacks = |pointer: &str, is_right: fn(&Value) -> bool| !result.pointer(pointer).is_some_and(is_right);
    [
        ("lacks a text `protocolVersion`", lacks("/protocolVersion", Value::is_string)),
        ("lacks an object `capabilities`", lacks("/capabilities", Value::is_object)),
        ("lacks an object `serverInfo`", lacks("/serverInfo", Value::is_object)),
        ("lacks a text `serverInfo.name`", lacks("/serverInfo/name", Value::is_string)),
        ("lacks a text `serverInfo.version`", lacks("/serverInfo/version", Value::is_string)),
    ]
    .into_iter()
    .find_map(|(what, is_missing)| is_missing.then_some(what))
}

/// The reason of a list of tools that cannot be used.
fn describe_list(error: &ServiceError) -> String {
    match error {
        ServiceError::UnexpectedResponse => {
            "its answer to `tools/list` is not a list of tools with `name` and `inputSchema`".to_owned()
        }
        other => other.to_string(),
    }
}

fn end_of(stderr: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&stderr.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_REASON_BYTES)].to_owned()
}
