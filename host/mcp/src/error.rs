//! Typed errors of describing and reaching a server.

use std::time::Duration;

use gymkhana_net::{ClientError, Forbidden};

/// A server cannot be used. The caller names the server.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The threads that talk to servers cannot be started.
    #[error("the threads for MCP sessions cannot be started")]
    Threads(#[source] std::io::Error),
    /// The command is empty.
    #[error("its command is empty\nhint: name a program")]
    NoCommand,
    /// The program cannot be started.
    #[error("`{program}` cannot be started\nhint: check that the program is installed and that PATH leads to it")]
    Spawn {
        /// Program.
        program: String,
        /// Cause.
        source: std::io::Error,
    },
    /// This system cannot keep the program from the network.
    #[error(
        "`{program}` cannot be kept from the network: {source}\nhint: allow unprivileged user namespaces on this \
         machine, or grant the network with `network = true`"
    )]
    Isolation {
        /// Program.
        program: String,
        /// Cause.
        source: std::io::Error,
    },
    /// No HTTP client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The address of the URL is not allowed.
    #[error(transparent)]
    Address(#[from] Forbidden),
    /// The name or the value of the secret header is invalid.
    #[error("the header `{0}` or its value cannot be part of an HTTP request\nhint: check both")]
    Header(String),
    /// The server did not get ready in time.
    #[error(
        "it was not ready after {} s{}\nhint: start it by hand, or raise `start_seconds`",
        seconds(limit),
        quoted(stderr)
    )]
    StartTime {
        /// Time limit.
        limit: Duration,
        /// End of its error output.
        stderr: String,
    },
    /// The handshake or the request for the list of tools failed.
    #[error("it failed at the start: {why}{}\nhint: start it by hand to see the cause", quoted(stderr))]
    Start {
        /// Reason.
        why: String,
        /// End of its error output.
        stderr: String,
    },
    /// It sent more than the limit.
    #[error("it sent more than {} KiB before an answer was complete\nhint: raise `max_kib`", limit >> 10)]
    TooLarge {
        /// Limit in bytes.
        limit: usize,
    },
    /// Two tools have the same name for policies.
    #[error(
        "its tools `{first}` and `{second}` have the same function name `{function}`\nhint: name one of them in `only`"
    )]
    SameFunction {
        /// Earlier tool.
        first: String,
        /// Later tool.
        second: String,
        /// Function name.
        function: String,
    },
    /// It offers no tool of this name.
    #[error("it offers no tool `{name}`\nhint: its tools are {}", listed(known))]
    NoTool {
        /// Name in `only`.
        name: String,
        /// Its tools.
        known: Vec<String>,
    },
    /// The tools differ from those of the list.
    #[error(
        "its tools are not those that the run began with: {difference}\nhint: install the former version of the server, or begin a new run"
    )]
    Changed {
        /// First difference.
        difference: String,
    },
    /// The name in the run file cannot be that of a plugin.
    #[error("`{name}` is not a plugin name\nhint: use lower-case letters, digits and `-`")]
    Name {
        /// Name.
        name: String,
    },
    /// The file does not hold a list of tools that this host wrote.
    #[error("the stored list of its tools is damaged\nhint: restore the run's folder from a copy")]
    Damaged,
}

fn seconds(limit: &Duration) -> f64 {
    limit.as_secs_f64()
}

fn quoted(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; its error output ends with: {text}"),
    }
}

fn listed(names: &[String]) -> String {
    format!("`{}`", names.join("`, `"))
}
