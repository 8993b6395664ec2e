//! A server: how a session reaches it, and the limits of the session.

use std::path::PathBuf;
use std::time::Duration;

use gymkhana_net::Secret;
use url::Url;

/// A server of a run.
#[derive(Debug, Clone)]
pub struct McpServer {
    /// Name in the run file.
    pub name: String,
    /// How a session reaches the server.
    pub endpoint: Endpoint,
    /// Limits of a session.
    pub limits: McpLimits,
    /// Names of the server's tools that the run offers; all tools if empty.
    pub only: Vec<String>,
}

/// How a session reaches a server.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A program on this machine, one process per session, over its standard input and output.
    Child(ChildServer),
    /// A server at a URL, over streamable HTTP.
    Remote(RemoteServer),
}

/// A server that is a program on this machine.
#[derive(Debug, Clone)]
pub struct ChildServer {
    /// Program and arguments. A program without `/` is looked up in `PATH`.
    pub command: Vec<String>,
    /// Environment variables, beside `PATH`, `LANG`, `HOME` and `TMPDIR`.
    pub env: Vec<(String, String)>,
    /// Working directory; `None` for a new folder per session, which is removed at its end.
    pub folder: Option<PathBuf>,
    /// Whether the program may use the network.
    pub network: bool,
}

/// A server at a URL.
#[derive(Debug, Clone)]
pub struct RemoteServer {
    /// URL of the MCP endpoint.
    pub url: Url,
    /// Whether the URL may lead to this machine or a private network.
    pub private: bool,
    /// Header of each request, with its value.
    pub secret: Option<(String, Secret)>,
}

/// Limits of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct McpLimits {
    /// Time for the answer to a call.
    pub call: Duration,
    /// Time for the start: the process, the handshake and the list of tools.
    pub start: Duration,
    /// Bytes that the server may send until the answer to a request is complete.
    pub bytes: usize,
}
