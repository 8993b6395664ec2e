//! Lists of tools of a run's MCP servers, pinned as plugin files.

use gymkhana_config::{EpisodeRules, McpSection};
use gymkhana_mcp::{McpError, ToolList, tools_of};
use gymkhana_registry::{Lock, PluginFile};

use super::servers::{failed, server, servers};
use crate::error::{RunError, RunResult};
use crate::plugins::{file_of, pin};
use crate::report::Reporter;

/// Adds the lists of tools of the run file's servers to the plugins of a run. Each server is started once and asked.
/// A list among the plugins, that of a resumed run, must be the server's present list.
///
/// # Errors
/// If a server cannot be used, or its list is not the pinned one.
pub fn with_servers(
    rules: &EpisodeRules,
    plugins: Vec<PluginFile>,
    lock: Lock,
    reporter: &dyn Reporter,
) -> RunResult<(Vec<PluginFile>, Lock)> {
    if rules.plugins.values().all(|tool| tool.mcp.is_none()) {
        return Ok((plugins, lock));
    }
    let recorded = |name: &str| {
        let plugin = plugins.iter().find(|plugin| plugin.name() == name)?;
        ToolList::in_file(&plugin.bytes)
    };
    let mut added = Vec::new();
    for (name, section) in servers(rules) {
        let failed = |error: McpError| failed(name, &error);
        let found = tools_of(&server(name, section)?).map_err(failed)?;
        let before = recorded(name).transpose().map_err(failed)?;
        // A run keeps its own list, and with it the order of the tools in prompts.
        let list = before.as_ref().unwrap_or(&found);
        list.check(&found).map_err(failed)?;
        let digest = list.digest().map_err(failed)?;
        check_digest(name, section, &digest.to_string())?;
        if before.is_none() {
            reporter.status(&format!("MCP server `{name}`: {} tools, digest {digest}", list.tools.len()));
            added.push(file_of(format!("MCP server `{name}`"), list.to_file().map_err(failed)?)?);
        }
    }
    pin(plugins.into_iter().chain(added).collect())
}

fn check_digest(name: &str, section: &McpSection, found: &str) -> RunResult<()> {
    match &section.digest {
        Some(pinned) if pinned.trim_start_matches("sha256:") != found => {
            let message = format!("plugins.{name}.mcp.digest is `{pinned}`, but the server's tools have `{found}`");
            Err(RunError::user(message).with_hint("check what changed in the server, then pin the new digest"))
        }
        _ => Ok(()),
    }
}
