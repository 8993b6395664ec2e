//! The gateway by HTTP: its errors and streams, its tools by MCP, recorded requests of real clients, and those clients
//! themselves.
//!
//! `cargo xtask test --reference clients` runs the ignored tests. `recorded` is the same without the clients.

mod frameworks;
mod http;
mod mcp;
mod real;
mod recorded;
mod served;
