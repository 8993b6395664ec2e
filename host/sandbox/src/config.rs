//! Configuration of a sandbox: limits, code cache and size.

use std::path::PathBuf;
use std::time::Duration;

use crate::compiler::Compiler;
use crate::engine::code_form::{CompilerEffort, ProcessOwner};

/// Resource limits of a plugin. Times apply to each call and sizes to each live instance, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Running time of the guest in one call, in CPU time of its own slices.
    pub budget: Duration,
    /// Running time of the guest in all calls of one episode.
    pub episode_budget: Duration,
    /// Fuel per call: about one unit per instruction, identical on every machine. Counting it slows code down by about
    /// 10 %; fuel is not counted if this and `fuel_per_episode` are both unset.
    pub fuel_per_call: Option<u64>,
    /// Fuel for all calls of one episode.
    pub fuel_per_episode: Option<u64>,
    /// Wall-clock limit of one call, excluding outbound calls.
    pub wall: Duration,
    /// Linear memory of all core instances together, including the memory with which they begin, in bytes.
    pub memory_bytes: usize,
    /// Elements per table.
    pub table_elements: usize,
    /// Number of core instances, such as the modules of a language runtime.
    pub instances: usize,
    /// Size of the result of one call, and of the data that one host function passes, in bytes.
    pub result_bytes: usize,
    /// Size of the log and of the console of one call, in bytes; the excess is dropped. The driver applies it to all
    /// calls of a plugin in an episode.
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
    /// Returns whether guests are compiled with fuel counting.
    #[must_use]
    pub fn count_fuel(&self) -> bool {
        self.fuel_per_call.is_some() || self.fuel_per_episode.is_some()
    }
}

/// Default size limit of the cache of compiled plugins, in bytes.
pub const DEFAULT_CACHE_BYTES: u64 = 2 << 30;

/// Settings of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Folder for compiled plugins, created if it does not exist. Only this user may have access, since its code is
    /// executed. `None` disables the cache.
    pub cache: Option<PathBuf>,
    /// Size limit of that folder in bytes. After each addition, plugins that were not used for the longest time are
    /// removed from it.
    pub cache_bytes: u64,
    /// Compiler of plugins that are not in the cache.
    pub compiler: Compiler,
    /// Effort of the compiler.
    pub effort: CompilerEffort,
    /// Whether this process compiles with several threads. They are shared by all engines of the process and do not exist
    /// in a forked child, which would wait for them without end.
    pub compile_in_parallel: bool,
    /// Owner of the process.
    pub owner: ProcessOwner,
    /// Limits of each plugin.
    pub limits: Limits,
    /// Maximum number of live instances; `None` uses all that this machine can hold.
    pub max_instances: Option<u32>,
    /// Timeout of the wait for a free place when a plugin starts.
    pub wait: Duration,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            cache: None,
            cache_bytes: DEFAULT_CACHE_BYTES,
            compiler: Compiler::default(),
            effort: CompilerEffort::default(),
            compile_in_parallel: true,
            owner: ProcessOwner::default(),
            limits: Limits::default(),
            max_instances: None,
            wait: Duration::from_secs(600),
        }
    }
}
