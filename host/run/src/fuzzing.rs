//! Entry point of the fuzz target `state`: the position in `state.json`.

use gymkhana_config::Stage;

use crate::state::TrainingState;

/// Reads a position and checks it against stages; `None` if either refuses it. Returns the position as it would be
/// written.
#[must_use]
pub fn read_state(text: &[u8], stages: &[Stage]) -> Option<String> {
    let state: TrainingState = serde_json::from_slice(text).ok()?;
    state.check(stages).ok()?;
    let _ = state.progress.begun_before(std::time::Instant::now());
    serde_json::to_string(&state).ok()
}
