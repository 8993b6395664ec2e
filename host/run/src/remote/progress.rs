//! Counters of a trainer on a server.

use gymkhana_trainer::RemoteStageState;

/// What changes with training steps.
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteProgress {
    /// Optimiser steps of the stage.
    pub optimizer_steps: u64,
    pub state: RemoteStageState,
    /// Number of saved weights, so that their names differ.
    pub saved: u32,
}
