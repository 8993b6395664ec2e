//! A build without MCP refuses run files with MCP servers.

use gymkhana_config::EpisodeRules;
use gymkhana_registry::{Lock, PluginFile};
use gymkhana_sandbox::Plugin;

use crate::error::{RunError, RunResult};
use crate::grants::OutboundMode;
use crate::report::Reporter;

/// No plugin file is the list of a server, unless the run file says so.
pub(crate) fn plugin(
    rules: &EpisodeRules,
    name: &str,
    _bytes: &[u8],
    _mode: OutboundMode,
) -> RunResult<Option<Plugin>> {
    match rules.plugins.get(name) {
        Some(tool) if tool.mcp.is_some() => Err(refused(name)),
        _ => Ok(None),
    }
}

/// Returns the plugins of a run file without MCP servers.
///
/// # Errors
/// If the run file has one.
pub fn with_servers(
    rules: &EpisodeRules,
    plugins: Vec<PluginFile>,
    lock: Lock,
    _reporter: &dyn Reporter,
) -> RunResult<(Vec<PluginFile>, Lock)> {
    let server = rules.plugins.iter().find(|(_, tool)| tool.mcp.is_some());
    server.map_or(Ok((plugins, lock)), |(name, _)| Err(refused(name)))
}

fn refused(name: &str) -> RunError {
    RunError::left_out(format!("the tool `{name}` is an MCP server"), "MCP")
}
