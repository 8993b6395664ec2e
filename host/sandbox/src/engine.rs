//! Engine profiles: one for small plugins, one for plugins that include a language runtime.
//!
//! A runtime's initial memory has megabytes of data, and copying them takes milliseconds. The heavy profile therefore
//! maps these pages copy-on-write, which costs two more memory mappings per live instance. The data of a small plugin
//! are copied as fast as they would be faulted in, so the light profile avoids the mappings.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, Engine, Inlining, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy};

use crate::cache::CodeCache;
use crate::instance::store_data::StoreData;
use crate::instance::ticker::Ticker;
use crate::mappings::{Memories, Stacks};
use crate::{CompilerEffort, Limits, ProcessOwner, SandboxError, imports};

/// Tables per place of the pool. A Rust guest has two.
pub(crate) const TABLES_PER_PLACE: u32 = 4;

/// Size from which a component is assumed to include a language runtime, in bytes. Such components have 12 MB and more;
/// other plugins have at most 2 MB.
const HEAVY_BYTES: usize = 8 << 20;

/// Largest initial memory of a runtime that is mapped copy-on-write even if most of it is zero, in bytes.
const DENSE_IMAGE: u64 = gymkhana_registry::MAX_PLUGIN_BYTES as u64;

/// Size of a 32-bit linear memory in bytes. The pool reserves the addresses of a whole one in every case; the limiter of
/// each store bounds the memory in use, which may differ by plugin.
const WHOLE_MEMORY: usize = 4 << 30;

/// Wasm stack of a call into a runtime, in bytes. CPython measures its stack in linear memory and raises an exception at
/// deep recursion, provided that this stack, which it cannot measure, is not exhausted first. Only touched pages use
/// memory.
const HEAVY_STACK: usize = 8 << 20;

/// Part of the same stack reserved for host functions, in bytes: the engine's default.
const HOST_STACK: usize = 3 << 19;

/// Addresses reserved behind a growing memory in a process of another owner, in bytes. A memory that outgrows them moves.
const GROWTH: usize = 1 << 20;

/// Bytes of a released memory or table that stay resident, to avoid page faults in the next instance. Where the kernel
/// reports touched pages, this halves the time of scoring in a new store.
const KEPT_RESIDENT: usize = 256 << 10;

/// Class of a plugin by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// A plugin without a language runtime.
    Light,
    /// A plugin with a language runtime.
    Heavy,
}

impl Weight {
    /// Classifies a component by its size, since the engine must be chosen before compilation.
    pub fn of(component: &[u8]) -> Self {
        if component.len() < HEAVY_BYTES { Self::Light } else { Self::Heavy }
    }

    /// Places per memory of a component; a place corresponds to four memory mappings.
    pub fn places(self) -> u32 {
        match self {
            Self::Light => 1,
            Self::Heavy => 2,
        }
    }
}

/// Properties that compiled code depends on; equal in the process that compiles and in the one that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeForm {
    pub weight: Weight,
    pub effort: CompilerEffort,
    /// Whether guests count fuel.
    pub count_fuel: bool,
    /// Owner of the process that runs the code.
    pub owner: ProcessOwner,
}

/// An engine with its linker, code cache and ticker.
pub(crate) struct Profile {
    pub engine: Engine,
    pub linker: Linker<StoreData>,
    pub cache: Option<CodeCache>,
    _ticker: Ticker,
}

impl Profile {
    /// Sets up an engine, its pool and its ticker thread. `cache` is the folder of compiled code and its size limit in
    /// bytes.
    pub fn new(
        form: CodeForm,
        limits: &Limits,
        places: u32,
        cache: Option<(&Path, u64)>,
        compile_in_parallel: bool,
    ) -> Result<Self, SandboxError> {
        let refused = |error: wasmtime::Error| SandboxError::Engine(error.into_boxed_dyn_error());
        let mut config = engine_config(form, limits, places);
        config.parallel_compilation(compile_in_parallel);
        let engine = Engine::new(&config).map_err(refused)?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker).map_err(refused)?;
        Ok(Self {
            _ticker: Ticker::start(&engine).map_err(SandboxError::Ticker)?,
            cache: cache.map(|(folder, max_bytes)| CodeCache::open(folder, max_bytes, &engine)).transpose()?,
            engine,
            linker,
        })
    }
}

/// Engine settings of this process.
pub(crate) fn engine_config(form: CodeForm, limits: &Limits, places: u32) -> Config {
    let CodeForm { weight, owner, .. } = form;
    let mut config = code_config(form);
    config.allocation_strategy(match owner {
        ProcessOwner::Host => InstanceAllocationStrategy::Pooling(pool(weight, limits, places)),
        // The sandbox's permits alone limit the number of instances.
        ProcessOwner::Foreign => InstanceAllocationStrategy::OnDemand,
    });
    if owner == ProcessOwner::Foreign {
        config.with_host_stack(Arc::new(Stacks::default()));
        if weight == Weight::Light {
            config.with_host_memory(Arc::new(Memories::new(GROWTH)));
        }
    }
    if weight == Weight::Heavy {
        config.max_wasm_stack(HEAVY_STACK).async_stack_size(HEAVY_STACK + HOST_STACK);
    }
    config
}

/// Settings on which compiled code depends. Features that would make results depend on the machine, and features that plugins do not need, are disabled. Garbage collection,
/// threads and exceptions are not compiled into this host.
pub(crate) fn code_config(CodeForm { weight, effort, count_fuel, owner }: CodeForm) -> Config {
    let heavy = weight == Weight::Heavy;
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        // Counting code is slower. The engine's hash keeps both forms apart in the code cache.
        .consume_fuel(count_fuel)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // Inlining makes a small plugin's step 10 % faster and compilation slower.
        .compiler_inlining(if heavy { Inlining::No } else { Inlining::Yes })
        // Copy-on-write needs two more memory mappings per live instance, and mappings are the scarcest resource.
        .memory_init_cow(heavy);
    if heavy && effort == CompilerEffort::Quick {
        config.strategy(Strategy::Winch);
    }
    if heavy {
        config.memory_guaranteed_dense_image_size(DENSE_IMAGE);
    }
    if owner == ProcessOwner::Foreign {
        config
            .signals_based_traps(false)
            .memory_reservation(0)
            .memory_guard_size(0)
            .guard_before_linear_memory(false)
            .memory_reservation_for_growth(GROWTH as u64);
    }
    config
}

fn pool(weight: Weight, limits: &Limits, places: u32) -> PoolingAllocationConfig {
    let instances = (places / weight.places()).max(1);
    let core_instances = u32::try_from(limits.instances).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(core_instances))
        .max_core_instances_per_component(core_instances)
        .total_memories(instances)
        .total_tables(instances * TABLES_PER_PLACE)
        .max_tables_per_module(TABLES_PER_PLACE)
        .total_stacks(instances)
        .max_memory_size(WHOLE_MEMORY)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(KEPT_RESIDENT)
        .table_keep_resident(KEPT_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    pool
}
