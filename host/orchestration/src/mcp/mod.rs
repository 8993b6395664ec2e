//! MCP servers of a run file as plugins, if the build has the feature `mcp`.

#[cfg(not(feature = "mcp"))]
mod left_out;
#[cfg(feature = "mcp")]
mod pinned;
#[cfg(feature = "mcp")]
mod servers;

#[cfg(not(feature = "mcp"))]
use left_out as used;
#[cfg(feature = "mcp")]
use servers as used;

pub(crate) use used::plugin;

/// Lists of tools of a run's MCP servers, pinned as plugin files.
pub mod pinned_servers {
    #[cfg(not(feature = "mcp"))]
    pub use super::left_out::with_servers;
    #[cfg(feature = "mcp")]
    pub use super::pinned::with_servers;
}
