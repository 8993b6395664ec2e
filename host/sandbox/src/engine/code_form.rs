//! Form of compiled code: what the process that compiles and the one that runs the code agree on.

use wasmtime::{Config, Inlining, Strategy};

/// Size from which a component is assumed to include a language runtime, in bytes. Such components have 12 MB and more;
/// other plugins have at most 2 MB.
const HEAVY_BYTES: usize = 8 << 20;

/// Largest initial memory of a runtime that is mapped copy-on-write even if most of it is zero, in bytes.
const DENSE_IMAGE: u64 = gymkhana_registry::MAX_PLUGIN_BYTES as u64;

/// Addresses reserved behind a growing memory in a process of another owner, in bytes. A memory that outgrows them moves.
pub(crate) const GROWTH: usize = 1 << 20;

/// Effort of the compiler for plugins that contain a language runtime. Other plugins compile in milliseconds and are
/// always optimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompilerEffort {
    /// Optimised code.
    #[default]
    Optimised,
    /// A compiler that is seven times as fast, for code that is run a few times, such as by a test after each edit. The
    /// code is slower and does not make the bits of NaNs equal on all machines.
    Quick,
}

/// Owner of the process that the sandbox runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessOwner {
    /// This host. Guests' faults are signals, and the addresses of all places are reserved at the start.
    #[default]
    Host,
    /// Another program that loaded this host as a library, such as a Python interpreter. It may handle signals itself,
    /// limit its address space, and fork. Guests check their accesses in code, which makes loops over memory a quarter
    /// slower, and a live instance takes as many addresses as memory.
    Foreign,
}

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

/// Settings on which compiled code depends. Features that would make results depend on the machine, and features that
/// plugins do not need, are disabled. Garbage collection, threads and exceptions are not compiled into this host.
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
