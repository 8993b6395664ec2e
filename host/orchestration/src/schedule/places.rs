//! Episodes that the sandbox can hold at once.

use gymkhana_config::RunFile;
use gymkhana_rollout::PluginSet;

use crate::error::{RunError, RunResult};

/// Number of episodes that can have all plugins alive in `places` instances.
#[must_use]
pub fn most_in_flight(plugins: &PluginSet, places: u32) -> usize {
    places as usize / plugins.places()
}

/// A warning if the sandbox holds fewer episodes than the policy could generate.
#[must_use]
pub fn fewer_in_flight(file: &RunFile, plugins: &PluginSet, places: u32) -> Option<String> {
    let (most, slots) = (most_in_flight(plugins, places), file.policy.max_concurrent_sequences);
    (most < slots).then(|| {
        format!(
            "the sandbox limits episodes in flight to {most}, below policy.max_concurrent_sequences = {slots}: it \
             holds {places} plugin instances\nhint: raise sandbox.instances or vm.max_map_count"
        )
    })
}

/// Rejects a group that cannot have all plugins alive; `whose` names it in the message.
///
/// # Errors
/// If the sandbox holds too few instances.
pub fn check_group(whose: &str, group: usize, plugins: &PluginSet, places: u32) -> RunResult<()> {
    let taken = plugins.places();
    let needed = group * taken;
    if needed <= places as usize {
        return Ok(());
    }
    Err(RunError::user(format!(
        "{whose}: a group of {group} episodes with {taken} plugin instances each needs {needed} instances, but the \
         sandbox holds {places}\nhint: lower group_size or the episodes that its plan adds, or raise sandbox.instances \
         or vm.max_map_count"
    )))
}
