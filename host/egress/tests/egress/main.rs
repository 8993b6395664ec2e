//! Outbound calls of plugins, with servers on loopback.

mod http;
mod model;
