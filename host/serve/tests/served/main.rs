//! Served sessions over HTTP and through the table: answers, records, bounds, and hostile clients.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod bounds;
mod common;
mod load;
mod mcp;
mod mcp_bad_input;
mod records;
mod same_bytes;
mod tls;
mod verltool;

/// The allocator of the program `host`, so that measured loads are those of a server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
