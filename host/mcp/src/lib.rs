//! Servers of the Model Context Protocol (MCP) as tools of a run.
//!
//! A run describes each server once. The description, a list of the server's tools, is stored and pinned as a plugin
//! file; [`Plugin`](gymkhana_sandbox::Plugin)s are made of it. Each episode has its own session with the server, which
//! runs in a child process or at a URL. Every request has a deadline and a size limit. A replay answers calls from the
//! record, so that it starts no server.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod checked_client;
mod component;
mod connection;
mod error;
mod limited_reader;
mod message_check;
mod process;
mod server;
mod tool;
mod tool_list;
mod waiting;

pub use connection::tools_of;
pub use error::McpError;
pub use server::{ChildServer, Endpoint, McpLimits, McpServer, RemoteServer};
pub use tool::plugin;
pub use tool_list::{ListedTool, ServerName, ToolList};
