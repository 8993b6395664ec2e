//! Lists of tools of a run's MCP servers, pinned as plugin files.

use gymkhana_config::{McpSection, RunFile};
use gymkhana_mcp::{McpError, ToolList, tools_of};
use gymkhana_registry::Lock;

use super::servers::{failed, server, servers};
use crate::error::{RunError, RunResult};
use crate::plugins::{PluginFile, pin};
use crate::report::Reporter;

/// Adds the lists of tools of the run file's servers to the plugins of a run. Each server is started once and asked.
/// A list among the plugins, that of a resumed run, must be the server's present list.
///
/// # Errors
/// If a server cannot be used, or its list is not the pinned one.
pub fn with_servers(
    file: &RunFile,
    plugins: Vec<PluginFile>,
    lock: Lock,
    reporter: &dyn Reporter,
) -> RunResult<(Vec<PluginFile>, Lock)> {
    if file.tools.values().all(|tool| tool.mcp.is_none()) {
        return Ok((plugins, lock));
    }
    let recorded = |name: &str| plugins.iter().find(|plugin| plugin.name == name && is_list(&plugin.bytes));
    let mut added = Vec::new();
    for (name, section) in servers(file) {
        let failed = |error: McpError| failed(name, &error);
        let list = tools_of(&server(name, section)?).map_err(failed)?;
        let (bytes, digest) = (list.to_file().map_err(failed)?, list.digest().map_err(failed)?);
        check_digest(name, section, &digest.to_string())?;
        match recorded(name) {
            Some(before) if before.bytes == bytes => {}
            Some(_) => return Err(changed(name)),
            None => {
                reporter.status(&format!("MCP server `{name}`: {} tools, digest {digest}", list.tools.len()));
                added.push((format!("MCP server `{name}`"), bytes));
            }
        }
    }
    let given = plugins.into_iter().map(|plugin| (plugin.origin, plugin.bytes));
    pin(given.chain(added).collect())
}

fn is_list(bytes: &[u8]) -> bool {
    ToolList::in_file(bytes).is_some()
}

fn check_digest(name: &str, section: &McpSection, found: &str) -> RunResult<()> {
    match &section.digest {
        Some(pinned) if pinned.trim_start_matches("sha256:") != found => {
            let message = format!("tools.{name}.mcp.digest is `{pinned}`, but the server's tools have `{found}`");
            Err(RunError::user(message).with_hint("check what changed in the server, then pin the new digest"))
        }
        _ => Ok(()),
    }
}

fn changed(name: &str) -> RunError {
    let message = format!("the MCP server `{name}` has other tools than when the run began");
    RunError::user(message).with_hint("install the former version of the server, or begin a new run")
}
