//! What all plugins share: places, limits, and the engines with their compiled code.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_registry::Digest;
use wasmtime::component::{Component, InstancePre};

use crate::capacity::{Places, max_map_count, places_for};
use crate::engine::{Profile, Weight};
use crate::state::State;
use crate::{CacheError, Limits, SandboxConfig};

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
    light: Profile,
    /// Made when the first heavy plugin comes, as few runs have one.
    heavy: Mutex<Option<Arc<Profile>>>,
    limits: Limits,
    places: Places,
    cache: Option<PathBuf>,
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
        let cache = config.cache.clone();
        Ok(Self {
            shared: Arc::new(Shared {
                light: Profile::new(Weight::Light, &config.limits, places, cache.as_deref())?,
                heavy: Mutex::default(),
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

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub(crate) fn places(&self) -> &Places {
        &self.shared.places
    }

    /// Does something with the profile for plugins of this weight.
    fn with_profile<T>(
        &self,
        weight: Weight,
        act: impl FnOnce(&Profile) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        let shared = &*self.shared;
        if weight == Weight::Light {
            return act(&shared.light);
        }
        let profile = {
            let mut heavy = shared.heavy.lock().unwrap_or_else(PoisonError::into_inner);
            match &*heavy {
                Some(profile) => Arc::clone(profile),
                None => {
                    let made = Profile::new(weight, &shared.limits, shared.places.total(), shared.cache.as_deref());
                    Arc::clone(heavy.insert(Arc::new(made.map_err(CompileError::Sandbox)?)))
                }
            }
        };
        act(&profile)
    }

    /// A component of this weight with its imports resolved.
    pub(crate) fn link(&self, weight: Weight, component: &Component) -> Result<InstancePre<State>, CompileError> {
        self.with_profile(weight, |profile| Ok(profile.linker.instantiate_pre(component)?))
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
        let component = self.with_profile(Weight::of(bytes), |profile| {
            if let Some(component) = profile.cache.as_ref().and_then(|cache| cache.get(&profile.engine, digest)) {
                shared.cache_hits.fetch_add(1, Ordering::Relaxed);
                return Ok(component);
            }
            let component = Component::from_binary(&profile.engine, bytes)?;
            shared.compiled.fetch_add(1, Ordering::Relaxed);
            if let Some(cache) = &profile.cache {
                cache.put(digest, &component.serialize()?)?;
            }
            Ok(component)
        })?;
        Ok(slot.insert(component).clone())
    }
}

/// A component cannot be compiled or linked, its compiled form not be kept, or its engine not be set up.
pub(crate) enum CompileError {
    Engine(wasmtime::Error),
    Cache(CacheError),
    Sandbox(SandboxError),
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
