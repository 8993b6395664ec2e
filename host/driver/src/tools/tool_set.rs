//! The tools of a run, with their functions.

use std::collections::HashMap;
use std::sync::Arc;

use gymkhana_record::{Function, NamedValue, stored_bytes};
use gymkhana_sandbox::{CallError, Plugin};

/// A plugin and the options that the run gives it.
#[derive(Clone)]
pub struct BoundPlugin {
    /// The plugin.
    pub plugin: Plugin,
    /// Options of the plugin.
    pub options: Vec<NamedValue>,
}

impl BoundPlugin {
    /// Options of the environment, which is inside if the plugin is a wrapper.
    #[must_use]
    pub fn environment_options(&self) -> &[NamedValue] {
        let inside = self.plugin.chain().filter_map(Plugin::inner).last();
        inside.map_or(&self.options, |(_, options)| options)
    }

    /// The plugin with other options of the environment, which is inside if the plugin is a wrapper.
    #[must_use]
    pub fn with_environment_options(&self, options: Vec<NamedValue>) -> Self {
        match self.plugin.with_environment_options(&options) {
            Some(plugin) => Self { plugin, options: self.options.clone() },
            None => Self { plugin: self.plugin.clone(), options },
        }
    }
}

/// Full names of the plugins that run without a sandbox and that a replay would have to call, for records.
pub fn unsandboxed<'a>(plugins: impl Iterator<Item = &'a Plugin>) -> Vec<String> {
    let called = plugins.filter(|plugin| !plugin.is_sandboxed() && !plugin.replays_from_record());
    called.map(|plugin| plugin.manifest().name.to_string()).collect()
}

/// A tool with its functions under the run's options.
pub struct Tool {
    /// The plugin and its options.
    pub bound: BoundPlugin,
    /// Functions of the tool.
    pub functions: Vec<Function>,
}

impl Tool {
    /// Requests the tool's functions.
    ///
    /// # Errors
    /// If the plugin is not a tool, fails, or rejects an option.
    pub async fn describe(bound: BoundPlugin) -> Result<Self, CallError> {
        let functions = bound.plugin.functions(&bound.options).await?;
        Ok(Self { bound, functions })
    }

    /// The plugin's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bound.plugin.name()
    }
}

/// Two tools offer one function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tools `{first}` and `{second}` both offer a function `{function}`")]
pub struct SameFunction {
    /// The function.
    pub function: String,
    /// The earlier tool.
    pub first: String,
    /// The later tool.
    pub second: String,
}

/// A seat may call a tool that the run does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tool `{tool}` does not exist")]
pub struct UnknownTool {
    /// The tool.
    pub tool: String,
}

/// Tools whose functions have different names.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<Arc<Tool>>,
    /// Size of all functions in a record, in bytes.
    stored_bytes: u64,
    /// Index of the tool that offers a function.
    directory: HashMap<String, usize>,
    /// Indices of the tools that a seat may call. A seat without an entry may call all of them.
    allowed: HashMap<u32, Vec<usize>>,
}

impl ToolSet {
    /// Adds a tool.
    ///
    /// # Errors
    /// If the set already has a function of the same name.
    pub fn add(&mut self, tool: Tool) -> Result<(), SameFunction> {
        for function in &tool.functions {
            if let Some(first) = self.directory.insert(function.name.clone(), self.tools.len()) {
                let first = self.tools.get(first).map_or(&tool, AsRef::as_ref);
                return Err(SameFunction {
                    function: function.name.clone(),
                    first: first.name().to_owned(),
                    second: tool.name().to_owned(),
                });
            }
        }
        self.stored_bytes = self.stored_bytes.saturating_add(stored_bytes(&tool.functions));
        self.tools.push(Arc::new(tool));
        Ok(())
    }

    /// The tools, in the order in which they were added.
    #[must_use]
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Index of the tool that offers a function.
    #[must_use]
    pub fn index_of(&self, function: &str) -> Option<usize> {
        self.directory.get(function).copied()
    }

    /// The tool that offers a function.
    #[must_use]
    pub fn offering(&self, function: &str) -> Option<&Tool> {
        self.index_of(function).map(|index| &*self.tools[index])
    }

    /// The same tools with one seat restricted to those of these names.
    ///
    /// # Errors
    /// If a name is not that of a tool.
    pub fn restricted(&self, seat: u32, names: &[String]) -> Result<Self, UnknownTool> {
        let index = |name: &String| {
            let found = self.tools.iter().position(|tool| tool.name() == name);
            found.ok_or_else(|| UnknownTool { tool: name.clone() })
        };
        let indices = names.iter().map(index).collect::<Result<Vec<usize>, UnknownTool>>()?;
        let mut set = self.clone();
        set.allowed.insert(seat, indices);
        Ok(set)
    }

    /// These tools with the restrictions of another set of the same tools.
    #[must_use]
    pub fn restricted_like(mut self, other: &Self) -> Self {
        self.allowed.clone_from(&other.allowed);
        self
    }

    /// Size of the functions of a seat's tools in a record, in bytes.
    pub(crate) fn stored_bytes_of(&self, seat: u32) -> u64 {
        match self.allowed.get(&seat) {
            None => self.stored_bytes,
            Some(_) => self.functions_of(seat).map(stored_bytes).sum(),
        }
    }

    /// The functions of the tools that a seat may call.
    pub fn functions_of(&self, seat: u32) -> impl Iterator<Item = &Function> {
        let allowed = self.allowed.get(&seat);
        let tools = self.tools.iter().enumerate();
        let may_call = move |index: &usize| allowed.is_none_or(|allowed| allowed.contains(index));
        tools.filter(move |(index, _)| may_call(index)).flat_map(|(_, tool)| &tool.functions)
    }

    /// The functions of all tools.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.tools.iter().flat_map(|tool| &tool.functions)
    }

    /// The names of the functions of all tools.
    #[must_use]
    pub fn function_names(&self) -> Vec<String> {
        self.functions().map(|function| function.name.clone()).collect()
    }
}
