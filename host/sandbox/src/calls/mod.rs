//! Calls of the three kinds of plugins: environment episodes, tool sessions and rewards.
//!
//! Episodes and sessions have snapshots.

pub(crate) mod environment;
pub(crate) mod reward;
pub(crate) mod tool;
pub(crate) mod trajectory;

use serde::{Deserialize, Serialize};
use wasmtime::{Error, Result as EngineResult};

use crate::Plugin;
use crate::exports::ExportIndices;
use crate::instance::HostState;

/// A plugin's state with the host-side state: position of the random streams, clock, and the reward sum of each seat
/// of an environment. That of a wrapper includes the environment inside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Bytes that the plugin wrote.
    #[serde(with = "gymkhana_record::bytes")]
    pub bytes: Vec<u8>,
    pub(crate) host: HostState,
    pub(crate) totals: Vec<f64>,
}

/// Returns the indices of an interface that the plugin's component exports.
fn exported<I>(plugin: &Plugin, of: impl FnOnce(&ExportIndices) -> &Option<I>) -> EngineResult<&I> {
    let component = plugin.component().map_err(Error::msg)?;
    of(&component.indices).as_ref().ok_or_else(|| Error::msg("the component does not export the interface"))
}
