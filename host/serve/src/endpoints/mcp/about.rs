//! What the server says of itself and of its lists.

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};

/// Time in milliseconds for which clients may keep a list of tools. A list does not change while the server runs.
pub(super) const LIST_TTL_MS: u64 = 300_000;

/// Name, version and capabilities: tools alone.
pub(super) fn server(instructions: &str) -> ServerConfig {
    let name = Implementation::new("gymkhana", env!("CARGO_PKG_VERSION"));
    ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
        .with_server_info(name)
        .with_instructions(instructions)
}
