//! Parsers of arguments that several commands take.

use std::net::SocketAddr;

/// Parses an address to listen on.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9464".to_owned())
}
