//! The cost of plugin calls: time, fuel and memory.

use serde::{Deserialize, Serialize};

use crate::{Boundary, CallSite};

/// The cost of one call. The first call of an instance includes the instance's start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time of the guest (microseconds). It depends on the machine, so that a replay does not compare it.
    pub running_us: f64,
    /// Fuel, about one unit per instruction; none if the run does not count fuel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Linear memory of the instance at the end of the call (bytes). Linear memory never shrinks, so this is the peak so
    /// far. None for a shared instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl std::ops::Add for Cost {
    type Output = Self;

    /// The cost of a call and a later one together.
    fn add(self, later: Self) -> Self {
        Self {
            running_us: self.running_us + later.running_us,
            fuel: self.fuel.map_or(later.fuel, |fuel| Some(fuel + later.fuel.unwrap_or(0))),
            memory_bytes: self.memory_bytes.max(later.memory_bytes),
        }
    }
}

/// The cost of one call of an episode.
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
