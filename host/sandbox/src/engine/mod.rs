//! Engine profiles: one for small plugins, one for plugins that include a language runtime.
//!
//! A runtime's initial memory has megabytes of data, and copying them takes milliseconds. The heavy profile therefore
//! maps these pages copy-on-write, which costs two more memory mappings per live instance. The data of a small plugin
//! are copied as fast as they would be faulted in, so the light profile avoids the mappings.

pub(crate) mod code_form;

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use self::code_form::{CodeForm, GROWTH, Weight, code_config};
use crate::cache::CodeCache;
use crate::instance::store_data::StoreData;
use crate::instance::ticker::Ticker;
use crate::mappings::{Memories, Stacks};
use crate::{Limits, ProcessOwner, SandboxError, imports};

/// Tables per place of the pool. A Rust guest has two.
pub(crate) const TABLES_PER_PLACE: u32 = 4;

/// Size of a 32-bit linear memory in bytes. The pool reserves the addresses of a whole one in every case; the limiter of
/// each store bounds the memory in use, which may differ by plugin.
const WHOLE_MEMORY: usize = 4 << 30;

/// Wasm stack of a call into a runtime, in bytes. CPython measures its stack in linear memory and raises an exception at
/// deep recursion, provided that this stack, which it cannot measure, is not exhausted first. Only touched pages use
/// memory.
const HEAVY_STACK: usize = 8 << 20;

/// Part of the same stack reserved for host functions, in bytes: the engine's default.
const HOST_STACK: usize = 3 << 19;

/// Bytes of a released memory or table that stay resident, to avoid page faults in the next instance. Where the kernel
/// reports touched pages, this halves the time of scoring in a new store.
const KEPT_RESIDENT: usize = 256 << 10;

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
