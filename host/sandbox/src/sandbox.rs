//! State that all plugins share: the instance pool, limits, and engines with compiled code.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_registry::Digest;
use wasmtime::component::{Component, InstancePre};

use crate::cache::{CodeCache, QuickBuild};
use crate::compiler::CompileError;
use crate::engine::Profile;
use crate::engine::code_form::{CodeForm, Weight};
use crate::instance::pool::{InstancePool, max_map_count, places_for};
use crate::instance::store_data::StoreData;
use crate::{Compiler, CompilerEffort, Limits, ProcessOwner, SandboxConfig, SandboxError};

/// Counters of a sandbox, for reports and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Number of compiled components.
    pub compiled: u64,
    /// Number of components loaded from the code cache on disk.
    pub cache_hits: u64,
    /// Number of places for live instances.
    pub places: u32,
    /// Number of free places.
    pub free_places: u32,
    /// Number of starts that had to wait for a place.
    pub waits: u64,
    /// Number of starts that are waiting for a place.
    pub waiting: u32,
    /// Total duration of finished waits for a place.
    pub waited: Duration,
}

/// Called before a component is compiled, with the plugin's name and version and the component's size in bytes.
type CompileHook = dyn Fn(&str, usize) + Send + Sync;

/// Loader of plugins and owner of their shared state. Cheap to clone; one per process suffices.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
    limits: Limits,
    on_compile: Option<Arc<CompileHook>>,
}

struct Shared {
    light: Profile,
    /// Created when the first heavy plugin is loaded; few runs have one.
    heavy: Mutex<Option<Arc<Profile>>>,
    pool: InstancePool,
    /// Folder of compiled code and its size limit in bytes.
    cache: Option<(PathBuf, u64)>,
    compiler: Compiler,
    effort: CompilerEffort,
    owner: ProcessOwner,
    compile_in_parallel: bool,
    components: Mutex<HashMap<Digest, Arc<Mutex<Option<Component>>>>>,
    compiled: AtomicU64,
    cache_hits: AtomicU64,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Sets up an engine, its pool and its ticker thread.
    ///
    /// # Errors
    /// If the machine cannot hold the configured number of instances, if other users can access the cache folder, or if
    /// the engine rejects its settings.
    pub fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let allowed = places_for(max_map_count());
        let places = config.max_instances.unwrap_or(allowed);
        if !(1..=allowed).contains(&places) {
            return Err(SandboxError::Instances { wanted: places, allowed });
        }
        let cache = config.cache.clone().map(|folder| (folder, config.cache_bytes));
        let &SandboxConfig { effort, owner, compile_in_parallel, ref limits, .. } = config;
        let light = CodeForm { weight: Weight::Light, effort, count_fuel: limits.count_fuel(), owner };
        Ok(Self {
            shared: Arc::new(Shared {
                light: Profile::new(light, limits, places, borrowed(cache.as_ref()), compile_in_parallel)?,
                heavy: Mutex::default(),
                pool: InstancePool::new(places, config.wait),
                cache,
                compiler: config.compiler.clone(),
                effort,
                owner,
                compile_in_parallel,
                components: Mutex::default(),
                compiled: AtomicU64::new(0),
                cache_hits: AtomicU64::new(0),
            }),
            limits: config.limits,
            on_compile: None,
        })
    }

    /// Current counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let Shared { pool, compiled, cache_hits, .. } = &*self.shared;
        Counters {
            compiled: compiled.load(Ordering::Relaxed),
            cache_hits: cache_hits.load(Ordering::Relaxed),
            places: pool.total(),
            free_places: pool.free(),
            waits: pool.waits(),
            waiting: pool.waiting(),
            waited: pool.waited(),
        }
    }

    /// Returns the sandbox with another memory limit, for the plugins that are loaded with it. It shares the pool and
    /// the compiled components.
    #[must_use]
    pub fn with_memory(&self, memory_bytes: usize) -> Self {
        Self { limits: Limits { memory_bytes, ..self.limits }, ..self.clone() }
    }

    /// Returns the sandbox with other limits, for the plugins that are loaded with it; `None` if only one of both counts
    /// fuel, which needs other code. It shares the pool and the compiled components.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Option<Self> {
        (limits.count_fuel() == self.limits.count_fuel()).then(|| Self { limits, ..self.clone() })
    }

    /// Returns the sandbox with a function that is called before each compilation, with the plugin's name and version and
    /// the size of its component in bytes. Plugins from the code cache are not compiled.
    #[must_use]
    pub fn on_compile(self, hook: impl Fn(&str, usize) + Send + Sync + 'static) -> Self {
        Self { on_compile: Some(Arc::new(hook)), ..self }
    }

    fn form(&self, weight: Weight) -> CodeForm {
        let Shared { effort, owner, .. } = *self.shared;
        CodeForm { weight, effort, count_fuel: self.limits.count_fuel(), owner }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn pool(&self) -> &InstancePool {
        &self.shared.pool
    }

    /// Calls a function with the profile for plugins of this weight.
    fn with_profile<T>(
        &self,
        weight: Weight,
        function: impl FnOnce(&Profile) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        let shared = &*self.shared;
        if weight == Weight::Light {
            return function(&shared.light);
        }
        let profile = {
            let mut heavy = shared.heavy.lock().unwrap_or_else(PoisonError::into_inner);
            match &*heavy {
                Some(profile) => Arc::clone(profile),
                None => {
                    let cache = borrowed(shared.cache.as_ref());
                    let (places, parallel) = (shared.pool.total(), shared.compile_in_parallel);
                    let made = Profile::new(self.form(weight), &self.limits, places, cache, parallel);
                    Arc::clone(heavy.insert(Arc::new(made.map_err(CompileError::Sandbox)?)))
                }
            }
        };
        function(&profile)
    }

    /// Resolves the imports of a component.
    pub(crate) fn link(&self, weight: Weight, component: &Component) -> Result<InstancePre<StoreData>, CompileError> {
        self.with_profile(weight, |profile| Ok(profile.linker.instantiate_pre(component)?))
    }

    /// Returns the compiled form of a component: from memory, from disk, or by compiling it. Concurrent requests for the
    /// same component compile it once. `plugin` is the plugin's name and version.
    pub(crate) fn compile(&self, digest: Digest, plugin: &str, bytes: &[u8]) -> Result<Component, CompileError> {
        let shared = &*self.shared;
        // A panic in another thread cannot leave these maps inconsistent: each change is a single assignment.
        let slot = {
            let mut components = shared.components.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(components.entry(digest).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(component) = &*slot {
            return Ok(component.clone());
        }
        let weight = Weight::of(bytes);
        let is_quick = weight == Weight::Heavy && shared.effort == CompilerEffort::Quick;
        let quick_build = if is_quick { QuickBuild::find(bytes) } else { None };
        let component = self.with_profile(weight, |profile| {
            let cached = |cache: &CodeCache| {
                let filled = quick_build.and_then(|build| cache.get_quick_build(&profile.engine, &build));
                filled.or_else(|| cache.get(&profile.engine, digest))
            };
            if let Some(component) = profile.cache.as_ref().and_then(cached) {
                shared.cache_hits.fetch_add(1, Ordering::Relaxed);
                return Ok(component);
            }
            if let Some(hook) = &self.on_compile {
                hook(plugin, bytes.len());
            }
            let mut code = shared.compiler.compile(&profile.engine, self.form(weight), bytes)?;
            // SAFETY: the bytes are the output of this host's compiler, in this process or in one that this process
            // started; in the second case their digest has been checked. The engine itself rejects code of another
            // engine.
            let component = unsafe { Component::deserialize(&profile.engine, &code) }?;
            shared.compiled.fetch_add(1, Ordering::Relaxed);
            if let Some(cache) = &profile.cache {
                // The same bytes again, to find out whether the code can serve other builds.
                let key = quick_build.filter(|build| build.fill(&mut code)).map_or(digest, |build| build.base());
                cache.put(key, plugin, &code)?;
            }
            Ok(component)
        })?;
        Ok(slot.insert(component).clone())
    }
}

fn borrowed(cache: Option<&(PathBuf, u64)>) -> Option<(&Path, u64)> {
    cache.map(|(folder, max_bytes)| (folder.as_path(), *max_bytes))
}
