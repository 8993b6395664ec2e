//! Calls of the three kinds of plugins: environment episodes, tool sessions and rewards.

pub(crate) mod environment;
pub(crate) mod reward;
pub(crate) mod tool;
pub(crate) mod trajectory;

use wasmtime::{Error, Result as EngineResult};

use crate::Plugin;
use crate::exports::ExportIndices;

/// Returns the indices of an interface that the plugin's component exports.
fn exported<I>(plugin: &Plugin, of: impl FnOnce(&ExportIndices) -> &Option<I>) -> EngineResult<&I> {
    let component = plugin.component().map_err(Error::msg)?;
    of(&component.indices).as_ref().ok_or_else(|| Error::msg("the component does not export the interface"))
}
