//! Counters of a trainer on a server.

use gymkhana_trainer::RemoteState;

/// What changes with training steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Optimiser steps of the stage.
    pub optimizer_steps: u64,
    pub state: RemoteState,
    /// Number of saved weights, so that their names differ.
    pub saved: u32,
}
