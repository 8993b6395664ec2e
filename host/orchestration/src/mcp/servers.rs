//! MCP servers of a run file as plugins.

use std::time::Duration;

use gymkhana_config::{EpisodeRules, McpSection};
use gymkhana_mcp::{ChildServer, Endpoint, McpError, McpLimits, McpServer, RemoteServer, ToolList};
use gymkhana_registry::ErrorChain;
use gymkhana_sandbox::Plugin;

use crate::error::{RunError, RunResult};
use crate::grants::{OutboundMode, secret};

/// The plugin of a server's list; `None` for other plugin files.
pub(crate) fn plugin(rules: &EpisodeRules, name: &str, bytes: &[u8], mode: OutboundMode) -> RunResult<Option<Plugin>> {
    let Some(list) = ToolList::in_file(bytes) else { return Ok(None) };
    let failed = |error: McpError| failed(name, &error);
    let list = list.map_err(failed)?;
    let section = servers(rules).find(|(server, _)| *server == name).map(|(_, section)| section);
    let section = section.ok_or_else(|| {
        let message = format!("the tool `{name}` is an MCP server, but the run file does not say how to reach it");
        RunError::user(message).with_hint(format!("add `mcp` to [plugins.{name}], or leave the tool out"))
    })?;
    let server = match mode {
        OutboundMode::Live => Some(server(name, section)?),
        OutboundMode::Recorded => None,
    };
    gymkhana_mcp::plugin(list, server).map(Some).map_err(failed)
}

/// The servers of a run file with their names.
pub(super) fn servers(rules: &EpisodeRules) -> impl Iterator<Item = (&str, &McpSection)> {
    rules.plugins.iter().filter_map(|(name, tool)| Some((name.as_str(), tool.mcp.as_ref()?)))
}

/// The server of a section, with the secrets that the section names.
pub(super) fn server(name: &str, section: &McpSection) -> RunResult<McpServer> {
    let endpoint = match &section.url {
        Some(url) => {
            let read = |hidden: &gymkhana_config::SecretSection| {
                let value = secret(&hidden.env, &format!("plugins.{name}.mcp.secret"))?;
                Ok::<_, RunError>((hidden.header.clone(), value))
            };
            let secret = section.secret.as_ref().map(read).transpose()?;
            Endpoint::Remote(RemoteServer { url: url.clone(), private: section.private, secret })
        }
        None => Endpoint::Child(ChildServer {
            command: section.command.clone(),
            env: environment(name, section)?,
            folder: section.folder.clone(),
            network: section.network,
        }),
    };
    let limits = McpLimits {
        call: Duration::from_secs_f64(section.seconds),
        start: Duration::from_secs_f64(section.start_seconds),
        bytes: section.max_kib << 10,
    };
    Ok(McpServer { name: name.to_owned(), endpoint, limits, only: section.only.clone() })
}

/// Variables of a server's environment: the given ones, and those of the host that the section names.
fn environment(name: &str, section: &McpSection) -> RunResult<Vec<(String, String)>> {
    let mut variables: Vec<_> = section.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    for variable in &section.env_from {
        let value = secret(variable, &format!("plugins.{name}.mcp.env_from"))?;
        variables.push((variable.clone(), value.reveal().to_owned()));
    }
    Ok(variables)
}

/// The error of a server that cannot be used.
pub(super) fn failed(name: &str, error: &McpError) -> RunError {
    RunError::user(format!("the MCP server `{name}` cannot be used: {}", ErrorChain(error)))
}
