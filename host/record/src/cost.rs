//! What calls of plugins cost.

use serde::{Deserialize, Serialize};

use crate::{Boundary, CallSite};

/// What one call used, its instance's start included if it was the first.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// How long the guest itself ran, in microseconds of the processor. It depends on the machine: a replay does not
    /// compare it.
    pub running_us: f64,
    /// The fuel that it used, about one for each instruction; none if the run does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The linear memory that its instance had taken by the end of the call, in bytes: its peak so far, since such
    /// memory never shrinks. None in an instance that others share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl std::ops::Add for Cost {
    type Output = Self;

    /// What one call and a later one used together.
    fn add(self, later: Self) -> Self {
        Self {
            running_us: self.running_us + later.running_us,
            fuel: self.fuel.map_or(later.fuel, |fuel| Some(fuel + later.fuel.unwrap_or(0))),
            memory_bytes: self.memory_bytes.max(later.memory_bytes),
        }
    }
}

/// What one call of an episode used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallCost {
    /// The plugin that was called.
    #[serde(flatten)]
    pub at: Boundary,
    /// The call.
    pub call_site: CallSite,
    /// Time, fuel and memory of the call.
    #[serde(flatten)]
    pub cost: Cost,
}
