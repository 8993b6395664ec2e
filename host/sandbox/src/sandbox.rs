//! State that all plugins share: the instance pool, limits, and engines with compiled code.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_registry::Digest;
use wasmtime::Module;
use wasmtime::component::{Component, InstancePre};

use crate::cache::{CodeCache, Compiled, QuickBuild};
use crate::compiler::CompileError;
use crate::engine::Profile;
use crate::engine::code_form::{CodeForm, Weight};
use crate::instance::pool::{InstancePool, max_map_count, places_for};
use crate::instance::store_data::StoreData;
use crate::split::{SplitComponent, import_name};
use crate::{CacheError, Compiler, CompilerEffort, Limits, ProcessOwner, SandboxConfig, SandboxError};

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

/// Stands for the plugin where a module that several share is compiled and listed.
const SHARED_MODULE: &str = "a runtime that plugins share";

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
    components: CodeByDigest<CompiledPlugin>,
    /// Modules that several components share.
    modules: CodeByDigest<Module>,
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
                modules: Mutex::default(),
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
    pub(crate) fn link(&self, weight: Weight, code: &CompiledPlugin) -> Result<InstancePre<StoreData>, CompileError> {
        self.with_profile(weight, |profile| {
            if code.modules.is_empty() {
                return Ok(profile.linker.instantiate_pre(&code.component)?);
            }
            let mut linker = profile.linker.clone();
            for (name, module) in &code.modules {
                linker.root().module(name, module)?;
            }
            Ok(linker.instantiate_pre(&code.component)?)
        })
    }

    /// Returns the compiled form of a component: from memory, from disk, or by compiling it. Concurrent requests for the
    /// same component, or for a module that several share, compile it once. `plugin` is the plugin's name and version.
    pub(crate) fn compile(&self, digest: Digest, plugin: &str, bytes: &[u8]) -> Result<CompiledPlugin, CompileError> {
        once(&self.shared.components, digest, || {
            let weight = Weight::of(bytes);
            let is_quick = weight == Weight::Heavy && self.shared.effort == CompilerEffort::Quick;
            let quick_build = if is_quick { QuickBuild::find(bytes) } else { None };
            let split =
                if weight == Weight::Heavy && quick_build.is_none() { SplitComponent::find(bytes) } else { None };
            self.with_profile(weight, |profile| match (split, quick_build) {
                (Some(split), _) => self.compile_split(profile, &split, digest, plugin, bytes),
                (None, Some(build)) => self.compile_quick_build(profile, &build, digest, plugin, bytes),
                (None, None) => {
                    let component = self.code(profile, digest, plugin, weight, || bytes.into())?;
                    Ok(CompiledPlugin::whole(component))
                }
            })
        })
    }

    /// Compiles what remains of a component without the modules that it shares, and those of them that are not compiled.
    fn compile_split(
        &self,
        profile: &Profile,
        split: &SplitComponent<'_>,
        digest: Digest,
        plugin: &str,
        bytes: &[u8],
    ) -> Result<CompiledPlugin, CompileError> {
        let heavy = Weight::Heavy;
        // A component that cannot import its modules is compiled whole, and does not use those that are linked.
        let remaining = || split.remaining().map_or_else(|| bytes.into(), Cow::from);
        let component = self.code(profile, SplitComponent::key(digest), plugin, heavy, remaining)?;
        let modules = split.modules().map(|(digest, module)| {
            let compiled = once(&self.shared.modules, digest, || {
                self.code(profile, digest, SHARED_MODULE, heavy, || module.into())
            });
            Ok::<_, CompileError>((import_name(digest), compiled?))
        });
        Ok(CompiledPlugin { component, modules: modules.collect::<Result<_, _>>()?, needs: Some(split.needs) })
    }

    /// Compiles a quick build, or fills the code of an earlier one on the same base.
    fn compile_quick_build(
        &self,
        profile: &Profile,
        build: &QuickBuild<'_>,
        digest: Digest,
        plugin: &str,
        bytes: &[u8],
    ) -> Result<CompiledPlugin, CompileError> {
        let cache = profile.cache.as_ref();
        if let Some(component) = cache.and_then(|cache| cache.get_quick_build(&profile.engine, build)) {
            self.shared.cache_hits.fetch_add(1, Ordering::Relaxed);
            return Ok(CompiledPlugin::whole(component));
        }
        let keep = |cache: &CodeCache, mut code: Vec<u8>| {
            // The same bytes again, to find out whether the code can serve other builds.
            let key = if build.fill(&mut code) { build.base() } else { digest };
            cache.put(key, plugin, &code)
        };
        self.code_kept(profile, digest, plugin, Weight::Heavy, || bytes.into(), keep).map(CompiledPlugin::whole)
    }

    /// Code from disk, or compiled and kept there under its digest.
    fn code<'a, T: Compiled>(
        &self,
        profile: &Profile,
        digest: Digest,
        plugin: &str,
        weight: Weight,
        bytes: impl FnOnce() -> Cow<'a, [u8]>,
    ) -> Result<T, CompileError> {
        self.code_kept(profile, digest, plugin, weight, bytes, |cache, code| cache.put(digest, plugin, &code))
    }

    fn code_kept<'a, T: Compiled>(
        &self,
        profile: &Profile,
        digest: Digest,
        plugin: &str,
        weight: Weight,
        bytes: impl FnOnce() -> Cow<'a, [u8]>,
        keep: impl FnOnce(&CodeCache, Vec<u8>) -> Result<(), CacheError>,
    ) -> Result<T, CompileError> {
        let Shared { compiler, compiled, cache_hits, .. } = &*self.shared;
        if let Some(found) = profile.cache.as_ref().and_then(|cache| cache.get(&profile.engine, digest)) {
            cache_hits.fetch_add(1, Ordering::Relaxed);
            return Ok(found);
        }
        let bytes = bytes();
        if let Some(hook) = &self.on_compile {
            hook(plugin, bytes.len());
        }
        let code = compiler.compile(&profile.engine, self.form(weight), &bytes)?;
        // SAFETY: the bytes are the output of this host's compiler, in this process or in one that this process started;
        // in the second case their digest has been checked. The engine itself rejects code of another engine.
        let read = unsafe { T::read(&profile.engine, &code) }?;
        compiled.fetch_add(1, Ordering::Relaxed);
        if let Some(cache) = &profile.cache {
            keep(cache, code)?;
        }
        Ok(read)
    }
}

/// Compiled form of a plugin.
#[derive(Clone)]
pub(crate) struct CompiledPlugin {
    component: Component,
    /// Modules that it shares with other plugins, by the names of its imports.
    modules: Vec<(String, Module)>,
    /// Memories and tables of an instance, of a component with shared modules.
    needs: Option<[u32; 2]>,
}

impl CompiledPlugin {
    fn whole(component: Component) -> Self {
        Self { component, modules: vec![], needs: None }
    }

    /// Number of memories and of tables of an instance.
    pub fn needs(&self) -> [u32; 2] {
        let whole = || self.component.resources_required().map(|needs| [needs.num_memories, needs.num_tables]);
        self.needs.or_else(whole).unwrap_or([1, 1])
    }
}

/// Code by digest, of which each piece is made once.
type CodeByDigest<T> = Mutex<HashMap<Digest, Arc<Mutex<Option<T>>>>>;

/// The code of a digest, which is made unless it is there. Others who want the same code wait.
fn once<T: Clone>(
    all: &CodeByDigest<T>,
    digest: Digest,
    make: impl FnOnce() -> Result<T, CompileError>,
) -> Result<T, CompileError> {
    // A panic in another thread cannot leave these maps inconsistent: each change is a single assignment.
    let slot = Arc::clone(all.lock().unwrap_or_else(PoisonError::into_inner).entry(digest).or_default());
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    match &*slot {
        Some(found) => Ok(found.clone()),
        None => Ok(slot.insert(make()?).clone()),
    }
}

fn borrowed(cache: Option<&(PathBuf, u64)>) -> Option<(&Path, u64)> {
    cache.map(|(folder, max_bytes)| (folder.as_path(), *max_bytes))
}
