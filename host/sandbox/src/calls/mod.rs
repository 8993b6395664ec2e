//! Calls of the three kinds of plugins: environment episodes, tool sessions and rewards.

pub(crate) mod environment;
pub(crate) mod reward;
pub(crate) mod tool;

use gymkhana_record::FailureKind;

use crate::{CallError, Plugin};

/// Returns the indices of an exported interface, or a refusal that names the interface.
fn exported<'a, I>(indices: Option<&'a I>, plugin: &Plugin, interface: &str) -> Result<&'a I, CallError> {
    indices.ok_or_else(|| {
        let name = &plugin.manifest().name;
        CallError::new(FailureKind::Refused, format!("plugin `{name}` does not offer the interface `{interface}`"))
    })
}
