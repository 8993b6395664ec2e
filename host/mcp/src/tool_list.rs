//! The tools of a server as a run pins them: read from the server once, and compared at the start of each session.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gymkhana_registry::{Capability, ContractStamp, Digest, Kind, Manifest, PluginName};
use rmcp::model::Tool;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{McpError, McpServer, component};

/// Namespace of plugins that are servers.
const NAMESPACE: &str = "mcp";
/// Number of the list's form.
const SCHEMA: u32 = 1;
/// Size limit of a text of the server in the manifest, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolList {
    schema: u32,
    /// Name of the server in the run file.
    pub name: String,
    /// The server's own name and version.
    pub server: ServerName,
    /// Protocol version of the session.
    pub protocol: String,
    /// The tools; a new list has them in the order of their names.
    pub tools: Vec<ListedTool>,
}

/// A server's own name and version; empty if it has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerName {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedTool {
    /// Name on the server.
    pub name: String,
    /// Name for policies: other characters than letters, digits, `_` and `-` are replaced by `_`.
    pub function: String,
    /// Description.
    pub description: String,
    /// JSON Schema of the arguments object.
    pub parameters: Value,
}

impl ToolList {
    /// The list of a session's tools, reduced to those that the run offers.
    pub(crate) fn new(
        server: &McpServer,
        identity: ServerName,
        protocol: String,
        tools: Vec<Tool>,
    ) -> Result<Self, McpError> {
        let mut tools: Vec<ListedTool> = tools.into_iter().map(ListedTool::new).collect();
        // A server may list its tools in any order.
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(name) = server.only.iter().find(|name| tools.iter().all(|tool| tool.name != **name)) {
            let known = tools.into_iter().map(|tool| tool.name).collect();
            return Err(McpError::NoTool { name: name.clone(), known });
        }
        if !server.only.is_empty() {
            tools.retain(|tool| server.only.contains(&tool.name));
        }
        for (index, tool) in tools.iter().enumerate() {
            if let Some(first) = tools[..index].iter().find(|earlier| earlier.function == tool.function) {
                let (first, second) = (first.name.clone(), tool.name.clone());
                return Err(McpError::SameFunction { first, second, function: tool.function.clone() });
            }
        }
        Ok(Self { schema: SCHEMA, name: server.name.clone(), server: identity, protocol, tools })
    }

    /// The plugin file with this list. Equal lists have equal files.
    ///
    /// # Errors
    /// If the name in the run file cannot be that of a plugin.
    pub fn to_file(&self) -> Result<Vec<u8>, McpError> {
        let json = serde_json::to_vec(self).map_err(|_| McpError::Damaged)?;
        component::encode(&self.manifest()?, &json).map_err(|_| McpError::Damaged)
    }

    /// The list in a plugin file; `None` if the file is not that of a server.
    ///
    /// # Errors
    /// If this host did not write the file.
    pub fn in_file(bytes: &[u8]) -> Option<Result<Self, McpError>> {
        let json = component::list_in(bytes)?;
        let list = serde_json::from_slice::<Self>(json).ok();
        // Nothing else may be in the file, because the digest speaks for the list.
        let list = list.filter(|list| list.schema == SCHEMA && list.to_file().is_ok_and(|file| file == bytes));
        Some(list.ok_or(McpError::Damaged))
    }

    /// Digest of the plugin file.
    ///
    /// # Errors
    /// As [`ToolList::to_file`].
    pub fn digest(&self) -> Result<Digest, McpError> {
        Ok(Digest::of(&self.to_file()?))
    }

    /// The manifest of the plugin file.
    pub(crate) fn manifest(&self) -> Result<Manifest, McpError> {
        let wrong = |_| McpError::Name { name: self.name.clone() };
        let ServerName { name, version } = &self.server;
        Ok(Manifest {
            name: PluginName::new(NAMESPACE, &self.name).map_err(wrong)?,
            version: version.parse().unwrap_or(Version::new(0, 0, 0)),
            kinds: BTreeSet::from([Kind::Tool]),
            contract: ContractStamp::of_this_host(),
            license: "NOASSERTION".to_owned(),
            description: format!("MCP server {} {}", short(name), short(version)).trim_end().to_owned(),
            capabilities: BTreeSet::<Capability>::new(),
            optional: BTreeSet::new(),
            deterministic: false,
            thoughts: false,
            reward_range: None,
            quick: false,
        })
    }

    /// Checks that another list has the tools of this one, in any order.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, found: &Self) -> Result<(), McpError> {
        let changed = |difference: String| Err(McpError::Changed { difference });
        if self.server != found.server {
            let show = |server: &ServerName| format!("`{} {}`", server.name, server.version);
            return changed(format!("the server is {}, not {}", show(&found.server), show(&self.server)));
        }
        for tool in &self.tools {
            match found.tools.iter().find(|other| other.name == tool.name) {
                None => return changed(format!("the tool `{}` is missing", tool.name)),
                Some(other) if other != tool => return changed(format!("the tool `{}` differs", tool.name)),
                Some(_) => {}
            }
        }
        match found.tools.iter().find(|tool| self.tools.iter().all(|other| other.name != tool.name)) {
            Some(new) => changed(format!("the tool `{}` is new", new.name)),
            None => Ok(()),
        }
    }
}

impl ListedTool {
    fn new(tool: Tool) -> Self {
        let is_allowed = |letter: &char| letter.is_ascii_alphanumeric() || "_-".contains(*letter);
        let function = tool.name.chars().map(|letter| if is_allowed(&letter) { letter } else { '_' }).collect();
        Self {
            function,
            name: tool.name.into_owned(),
            description: tool.description.map(Cow::into_owned).unwrap_or_default(),
            parameters: Value::Object((*tool.input_schema).clone()),
        }
    }
}

/// A text cut to the length that a manifest has room for.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use gymkhana_registry::{MANIFEST_MAGIC, MANIFEST_SECTION};

    use super::*;
    use crate::component::{LIST_SECTION, list_in};

    /// By hand from the binary format: custom sections are 0, instances 5, exports 11; a plain export name begins with 0,
    /// the sort `instance` is 5. Digests of files of earlier versions stay valid.
    #[test]
    fn a_file_has_the_bytes_of_the_format() {
        let server = ServerName { name: "server".to_owned(), version: "1.2.0".to_owned() };
        let list = ToolList {
            schema: SCHEMA,
            name: "files".to_owned(),
            server,
            protocol: "2025-06-18".to_owned(),
            tools: vec![],
        };
        let (json, text) = (serde_json::to_vec(&list.manifest().unwrap()).unwrap(), serde_json::to_vec(&list).unwrap());
        let named = |name: &str, rest: &[u8]| [&[name.len() as u8], name.as_bytes(), rest].concat();
        let section = |number: u8, content: &[u8]| {
            let (low, high) = ((content.len() & 0x7f) as u8, (content.len() >> 7) as u8);
            let size = if high == 0 { vec![low] } else { vec![low | 0x80, high] };
            [&[number], &size[..], content].concat()
        };
        let framed = [&MANIFEST_MAGIC[..], &(json.len() as u32).to_le_bytes(), &json].concat();
        let interface =
            format!("{}/{}@{}", gymkhana_registry::contract::PACKAGE, Kind::Tool, gymkhana_registry::contract::VERSION);
        let expected = [
            b"\0asm\x0d\0\x01\0".to_vec(),
            section(0, &named(LIST_SECTION, &text)),
            section(0, &named(MANIFEST_SECTION, &framed)),
            section(5, &[1, 1, 0]),
            section(11, &[&[1, 0], &named(&interface, &[5, 0, 0])[..]].concat()),
        ];
        let bytes = list.to_file().unwrap();
        assert_eq!(bytes, expected.concat());
        assert_eq!(list_in(&bytes), Some(&text[..]));
        assert_eq!((list_in(&bytes[..20]), list_in(b"\0asm\x0d\0\x01\0"), list_in(b"text")), (None, None, None));
    }
}
