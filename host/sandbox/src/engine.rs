//! The engines that plugins run in: one for small plugins, one for those that carry a language's runtime.
//!
//! A runtime's memory begins with megabytes of data. Copying them takes milliseconds, so their pages are shared until
//! they are written, at the price of two memory mappings more for each live instance; a small plugin's data are copied
//! as fast as they would be faulted in, and it keeps the engine that spends no mapping on that.

use std::path::Path;

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, Engine, Inlining, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::cache::CodeCache;
use crate::state::{self, State};
use crate::ticker::Ticker;
use crate::{Limits, SandboxError, imports, wasi};

/// Tables that one place of the pool holds. A Rust guest has two.
pub(crate) const TABLES_PER_PLACE: u32 = 4;

/// From this size on a component is held to carry a language's runtime, in bytes. Such have 12 MB and more, and plugins
/// compiled by themselves have 2 at most.
const HEAVY_BYTES: usize = 8 << 20;

/// Memory that a runtime may begin with, beside what it may then use, in bytes.
const HEAVY_START: usize = gymkhana_registry::MAX_PLUGIN_BYTES;

/// What is kept resident of a memory or table that is given back, to spare the next instance the page faults, in
/// bytes. Where the kernel can say which pages were touched, this halves the time of a fresh scoring.
const KEPT_RESIDENT: usize = 256 << 10;

/// How much a plugin brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Its own code.
    Light,
    /// A language's runtime.
    Heavy,
}

impl Weight {
    /// Judges a component by its size, since the engine must be known before anything is compiled.
    pub fn of(component: &[u8]) -> Self {
        if component.len() < HEAVY_BYTES { Self::Light } else { Self::Heavy }
    }

    /// Places of the sandbox that one of a component's memories takes; a place stands for four memory mappings.
    pub fn places(self) -> u32 {
        match self {
            Self::Light => 1,
            Self::Heavy => 2,
        }
    }

    /// What one instance may use, when it begins with so much memory. What a runtime begins with is not counted: the
    /// limit is what its program may use.
    pub fn limits(self, limits: &Limits, begins_with: usize) -> Limits {
        match self {
            Self::Light => *limits,
            Self::Heavy => Limits { memory_bytes: limits.memory_bytes + begins_with.min(HEAVY_START), ..*limits },
        }
    }
}

/// An engine with what is linked and kept for it.
pub(crate) struct Profile {
    pub engine: Engine,
    pub linker: Linker<State>,
    pub cache: Option<CodeCache>,
    _ticker: Ticker,
}

impl Profile {
    /// Sets up an engine, its pool and its ticking thread.
    pub fn new(weight: Weight, limits: &Limits, places: u32, cache: Option<&Path>) -> Result<Self, SandboxError> {
        let refused = |error: wasmtime::Error| SandboxError::Engine(error.into_boxed_dyn_error());
        let engine = Engine::new(&engine_config(weight, limits, places)).map_err(refused)?;
        let mut linker = Linker::new(&engine);
        wasi::link(&mut linker)
            .and_then(|()| state::link(&mut linker))
            .and_then(|()| imports::link(&mut linker))
            .map_err(refused)?;
        Ok(Self {
            _ticker: Ticker::start(&engine).map_err(SandboxError::Ticker)?,
            cache: cache.map(|folder| CodeCache::open(folder, &engine)).transpose()?,
            engine,
            linker,
        })
    }
}

/// Everything that would make a plugin's results depend on the machine, or that plugins do not need, is off. Garbage
/// collection, threads and exceptions are not even compiled into this host.
pub(crate) fn engine_config(weight: Weight, limits: &Limits, places: u32) -> Config {
    let heavy = weight == Weight::Heavy;
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        // A profile of its own, for code that counts is slower; compiled code is kept apart by the engine's hash.
        .consume_fuel(limits.count_fuel())
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // A tenth off the time of a small plugin's step, for some more of compiling, which happens once.
        .compiler_inlining(if heavy { Inlining::No } else { Inlining::Yes })
        // See above: it would take two memory mappings more for each live instance, and mappings are what runs out
        // first.
        .memory_init_cow(heavy)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(weight, limits, places)));
    if heavy {
        config.memory_guaranteed_dense_image_size(HEAVY_START as u64);
    }
    config
}

fn pool(weight: Weight, limits: &Limits, places: u32) -> PoolingAllocationConfig {
    let lives = (places / weight.places()).max(1);
    let memory = match weight {
        Weight::Light => limits.memory_bytes,
        Weight::Heavy => limits.memory_bytes + HEAVY_START,
    };
    let instances = u32::try_from(limits.instances).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(lives)
        .total_core_instances(lives.saturating_mul(instances))
        .max_core_instances_per_component(instances)
        .total_memories(lives)
        .total_tables(lives * TABLES_PER_PLACE)
        .max_tables_per_module(TABLES_PER_PLACE)
        .total_stacks(lives)
        .max_memory_size(memory)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(KEPT_RESIDENT)
        .table_keep_resident(KEPT_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    pool
}
