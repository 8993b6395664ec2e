//! The engine that all plugins share: its pool, its ticks and its compiled code.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_registry::Digest;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Enabled, Engine, Inlining, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::cache::CodeCache;
use crate::capacity::{Places, max_map_count, places_for};
use crate::state::{self, State};
use crate::ticker::Ticker;
use crate::{CacheError, Limits, SandboxConfig, imports, wasi};

/// Tables that one place of the pool holds. A Rust guest has two.
pub(crate) const TABLES_PER_PLACE: u32 = 4;

/// What is kept resident of a memory or table that is given back, to spare the next instance the page faults, in
/// bytes. Where the kernel can say which pages were touched, this halves the time of a fresh scoring.
const KEPT_RESIDENT: usize = 256 << 10;

/// A sandbox cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// More live instances were asked for than this machine can hold.
    #[error(
        "{wanted} live plugins were asked for and this machine holds {allowed} (four of vm.max_map_count for each); \
         ask for 1 to {allowed}, or raise vm.max_map_count"
    )]
    Instances {
        /// How many were asked for.
        wanted: u32,
        /// How many fit.
        allowed: u32,
    },
    /// The folder for compiled plugins cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The engine refuses its settings, or the machine refuses the memory that it reserves.
    #[error("the WebAssembly engine cannot be set up; ask for fewer live plugins or smaller limits")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The thread that ticks cannot be started.
    #[error("the thread that interrupts plugins cannot be started; raise the limit on processes")]
    Ticker(#[source] std::io::Error),
}

/// What a sandbox has done, for reports and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Components that were compiled.
    pub compiled: u64,
    /// Components whose compiled form was found on disk.
    pub cache_hits: u64,
    /// How many plugins may be live at once.
    pub places: u32,
    /// How many more could start now.
    pub free_places: u32,
    /// How often the start of a plugin had to wait for a place.
    pub waits: u64,
    /// How many starts of plugins wait for a place now.
    pub waiting: u32,
    /// How long the starts that wait no more have waited for a place, in sum.
    pub waited: Duration,
}

/// Loads plugins and holds what they share. Cheap to clone; one for a process is enough.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    linker: Linker<State>,
    limits: Limits,
    places: Places,
    cache: Option<CodeCache>,
    components: Mutex<HashMap<Digest, Arc<Mutex<Option<Component>>>>>,
    compiled: AtomicU64,
    cache_hits: AtomicU64,
    _ticker: Ticker,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Sets up an engine, its pool and its ticking thread.
    ///
    /// # Errors
    /// If more instances are asked for than the machine holds, if the cache folder is not this user's alone, or if
    /// the engine refuses.
    pub fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let allowed = places_for(max_map_count());
        let places = config.max_instances.unwrap_or(allowed);
        if !(1..=allowed).contains(&places) {
            return Err(SandboxError::Instances { wanted: places, allowed });
        }
        let refused = |error: wasmtime::Error| SandboxError::Engine(error.into_boxed_dyn_error());
        let engine = Engine::new(&engine_config(&config.limits, places)).map_err(refused)?;
        let mut linker = Linker::new(&engine);
        wasi::link(&mut linker)
            .and_then(|()| state::link(&mut linker))
            .and_then(|()| imports::link(&mut linker))
            .map_err(refused)?;
        let cache = config.cache.as_deref().map(|folder| CodeCache::open(folder, &engine)).transpose()?;
        Ok(Self {
            shared: Arc::new(Shared {
                _ticker: Ticker::start(&engine).map_err(SandboxError::Ticker)?,
                engine,
                linker,
                limits: config.limits,
                places: Places::new(places, config.wait),
                cache,
                components: Mutex::default(),
                compiled: AtomicU64::new(0),
                cache_hits: AtomicU64::new(0),
            }),
        })
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let Shared { places, compiled, cache_hits, .. } = &*self.shared;
        Counters {
            compiled: compiled.load(Ordering::Relaxed),
            cache_hits: cache_hits.load(Ordering::Relaxed),
            places: places.total(),
            free_places: places.free(),
            waits: places.waits(),
            waiting: places.waiting(),
            waited: places.waited(),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub(crate) fn places(&self) -> &Places {
        &self.shared.places
    }

    /// A component with its imports resolved.
    pub(crate) fn link(&self, component: &Component) -> wasmtime::Result<InstancePre<State>> {
        self.shared.linker.instantiate_pre(component)
    }

    /// The compiled form of a component: from memory, from disk or compiled now. However many ask for one component
    /// at the same time, it is compiled once.
    pub(crate) fn compile(&self, digest: Digest, bytes: &[u8]) -> Result<Component, CompileError> {
        let shared = &*self.shared;
        // A panic of another thread leaves these maps as they were: they change by single assignments.
        let slot = {
            let mut components = shared.components.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(components.entry(digest).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(component) = &*slot {
            return Ok(component.clone());
        }
        let component = match shared.cache.as_ref().and_then(|cache| cache.get(&shared.engine, digest)) {
            Some(component) => {
                shared.cache_hits.fetch_add(1, Ordering::Relaxed);
                component
            }
            None => {
                let component = Component::from_binary(&shared.engine, bytes)?;
                shared.compiled.fetch_add(1, Ordering::Relaxed);
                if let Some(cache) = &shared.cache {
                    cache.put(digest, &component.serialize()?)?;
                }
                component
            }
        };
        Ok(slot.insert(component).clone())
    }
}

/// A component cannot be compiled, or its compiled form not be kept.
pub(crate) enum CompileError {
    Engine(wasmtime::Error),
    Cache(CacheError),
}

impl From<wasmtime::Error> for CompileError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<CacheError> for CompileError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

/// Everything that would make a plugin's results depend on the machine, or that plugins do not need, is off. Garbage
/// collection, threads and exceptions are not even compiled into this host.
pub(crate) fn engine_config(limits: &Limits, places: u32) -> Config {
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        // A profile of its own, for code that counts is slower; compiled code is kept apart by the engine's hash.
        .consume_fuel(limits.count_fuel())
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // A tenth off the time of a step, for some more of compiling, which happens once.
        .compiler_inlining(Inlining::Yes)
        // It would take two memory mappings more for each live instance, and mappings are what runs out first; a small
        // guest's data are copied as fast as its pages would be faulted in.
        .memory_init_cow(false)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits, places)));
    config
}

fn pool(limits: &Limits, places: u32) -> PoolingAllocationConfig {
    let instances = u32::try_from(limits.instances).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_core_instances(places.saturating_mul(instances))
        .max_core_instances_per_component(instances)
        .total_memories(places)
        .total_tables(places * TABLES_PER_PLACE)
        .max_tables_per_module(TABLES_PER_PLACE)
        .total_stacks(places)
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(KEPT_RESIDENT)
        .table_keep_resident(KEPT_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    pool
}
