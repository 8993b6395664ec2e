//! What a sandbox may be told: its limits, its cache and its size.

use std::path::PathBuf;
use std::time::Duration;

/// What one plugin may use. Where nothing else is said, times hold for each call and sizes for each live instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the guest itself may run in one call: the processor's time of its slices, not that of its neighbours.
    pub budget: Duration,
    /// How long the guest may run in all calls of one episode.
    pub episode_budget: Duration,
    /// How much fuel one call may use: about one for each instruction, the same on every machine. Code that counts it
    /// runs a tenth slower; without this and the next it is not counted.
    pub fuel_per_call: Option<u64>,
    /// How much fuel all calls of one episode may use.
    pub fuel_per_episode: Option<u64>,
    /// How long one call may take by the wall clock, whatever it waits for.
    pub wall: Duration,
    /// Linear memory of all its core instances together, in bytes.
    pub memory_bytes: usize,
    /// Elements of each table.
    pub table_elements: usize,
    /// Core instances, such as the modules of a language runtime.
    pub instances: usize,
    /// What one call may return, and what one call of the host may pass to it, in bytes.
    pub result_bytes: usize,
    /// What is kept of its log and its console until it is taken, in bytes; the rest is dropped.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            budget: Duration::from_secs(1),
            episode_budget: Duration::from_secs(60),
            fuel_per_call: None,
            fuel_per_episode: None,
            wall: Duration::from_secs(30),
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            instances: 32,
            result_bytes: 8 << 20,
            log_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// Whether guests are compiled so that they count their fuel.
    #[must_use]
    pub fn count_fuel(&self) -> bool {
        self.fuel_per_call.is_some() || self.fuel_per_episode.is_some()
    }
}

/// How a sandbox is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Where compiled plugins are kept between runs. It must belong to this user alone, as the code in it is
    /// executed; it is made if it does not exist. Nothing is kept if none is given.
    pub cache: Option<PathBuf>,
    /// What each plugin may use.
    pub limits: Limits,
    /// How many plugins may be live at once; as many as this machine can hold if none is given.
    pub max_instances: Option<u32>,
    /// How long to wait for a free place before the start of a plugin fails.
    pub wait: Duration,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { cache: None, limits: Limits::default(), max_instances: None, wait: Duration::from_secs(600) }
    }
}
