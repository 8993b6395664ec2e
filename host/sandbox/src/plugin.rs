//! A plugin that passed every check and is compiled: what can be started.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use gymkhana_registry::{
    ContractError, Digest, Manifest, ManifestError, PluginFileError, exports, imports, read_manifest, read_plugin_file,
};
use tokio::sync::OnceCell;
use wasmtime::component::InstancePre;

use crate::engine::{TABLES_PER_PLACE, Weight};
use crate::functions::{EnvironmentFunctions, Indices, ToolFunctions};
use crate::grant::{self, Refusal};
use crate::room::Rooms;
use crate::sandbox::CompileError;
use crate::state::State;
use crate::{
    Assets, CacheError, EnvironmentInfo, Grants, Outbound, RewardInfo, Sandbox, SandboxError, ToolInfo, environment,
    tool,
};

/// What WebAssembly counts memory in.
const PAGE_BYTES: usize = 64 << 10;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A plugin cannot be loaded. `origin` is its file, or what the caller called its bytes.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its file cannot be read.
    #[error(transparent)]
    File(#[from] PluginFileError),
    /// It is no component, or has no proper manifest.
    #[error("plugin `{origin}` cannot be used")]
    Manifest {
        /// Where it came from.
        origin: String,
        /// What is wrong.
        source: ManifestError,
    },
    /// It was built for another contract.
    #[error("plugin `{origin}` cannot be used")]
    Contract {
        /// Where it came from.
        origin: String,
        /// What is wrong.
        source: ContractError,
    },
    /// It imports or asks for what it cannot have.
    #[error("plugin `{origin}` is not let in")]
    Refused {
        /// Where it came from.
        origin: String,
        /// Why.
        source: Refusal,
    },
    /// The engine does not accept its code, or its imports and exports are not of the contract's types.
    #[error("plugin `{origin}` does not fit the engine; build it again for `wasm32-wasip2` with gymkhana-sdk")]
    Engine {
        /// Where it came from.
        origin: String,
        /// What is wrong.
        source: Cause,
    },
    /// One instance of it would take more than the whole pool.
    #[error(
        "plugin `{origin}` needs {needed} places for one instance and the pool has {places}; allow more live instances"
    )]
    TooBig {
        /// Where it came from.
        origin: String,
        /// How many places it needs.
        needed: u32,
        /// How many there are.
        places: u32,
    },
    /// Its compiled code cannot be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The engine for plugins with a language's runtime cannot be set up.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// An interface that a plugin may or may not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionalInterface {
    /// An environment's episodes can be saved and restored.
    Snapshot,
    /// An environment's states have a canonical form.
    StateKey,
    /// An environment has a view for rewards and teachers.
    Privileged,
    /// An environment knows what an expert would do.
    Oracle,
    /// An environment gives hints after a failure.
    Guidance,
    /// An environment draws itself.
    Render,
    /// A tool's sessions can be saved and restored.
    ToolSnapshot,
    /// A tool has a view for rewards.
    FinalView,
}

/// A plugin that may run. Cheap to clone.
#[derive(Clone)]
pub struct Plugin {
    shared: Arc<Shared>,
    rooms: Option<Arc<AllRooms>>,
    assets: Assets,
    granted: Option<Arc<dyn Outbound>>,
    world: Option<Arc<dyn Outbound>>,
}

/// The instances of a plugin that many episodes share, by kind. Rewards never share one.
pub(crate) struct AllRooms {
    pub environments: Rooms<EnvironmentFunctions>,
    pub tools: Rooms<ToolFunctions>,
}

struct Shared {
    sandbox: Sandbox,
    manifest: Manifest,
    digest: Digest,
    uncounted: usize,
    linked: InstancePre<State>,
    places: u32,
    indices: Indices,
    pub environment_info: OnceCell<Arc<EnvironmentInfo>>,
    pub tool_info: OnceCell<Arc<ToolInfo>>,
    pub reward_info: OnceCell<Arc<RewardInfo>>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({} {}, {:?})", self.manifest().name, self.manifest().version, self.digest())
    }
}

impl Plugin {
    /// Loads a plugin's file. Compiling blocks for some tenths of a second and more: not for an asynchronous task.
    ///
    /// # Errors
    /// See [`LoadError`]; everything that can be told without compiling is told before.
    pub fn load(sandbox: &Sandbox, path: &Path, grants: &Grants) -> Result<Self, LoadError> {
        let bytes = read_plugin_file(path)?;
        Self::from_bytes(sandbox, &path.display().to_string(), &bytes, grants)
    }

    /// Loads a plugin from its bytes; `origin` is what errors call it.
    ///
    /// # Errors
    /// As [`Plugin::load`].
    pub fn from_bytes(sandbox: &Sandbox, origin: &str, bytes: &[u8], grants: &Grants) -> Result<Self, LoadError> {
        let manifest = checked_manifest(origin, bytes, grants)?;
        let digest = Digest::of(bytes);
        let misfit = |error: wasmtime::Error| LoadError::Engine {
            origin: origin.to_owned(),
            source: error.into_boxed_dyn_error(),
        };
        let failed = |error: CompileError| match error {
            CompileError::Engine(error) => misfit(error),
            CompileError::Cache(error) => LoadError::Cache(error),
            CompileError::Sandbox(error) => LoadError::Sandbox(error),
        };
        let weight = Weight::of(bytes);
        let component = sandbox.compile(digest, bytes).map_err(failed)?;
        let needs = component.resources_required();
        let memories = needs
            .as_ref()
            .map_or(1, |needs| needs.num_memories.max(needs.num_tables.div_ceil(TABLES_PER_PLACE)).max(1));
        let needed = memories.saturating_mul(weight.places());
        let pages = needs.and_then(|needs| needs.max_initial_memory_size).unwrap_or(0);
        let begins_with = usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES);
        let places = sandbox.places().total();
        if needed > places {
            return Err(LoadError::TooBig { origin: origin.to_owned(), needed, places });
        }
        let linked = sandbox.link(weight, &component).map_err(failed)?;
        let exports = exports(bytes).map_err(|error| LoadError::Manifest {
            origin: origin.to_owned(),
            source: ManifestError::Component(error),
        })?;
        let indices = Indices::find(&linked, &exports).map_err(misfit)?;
        let shared = Shared {
            sandbox: sandbox.clone(),
            manifest,
            digest,
            uncounted: weight.uncounted(begins_with),
            linked,
            places: needed,
            indices,
            environment_info: OnceCell::new(),
            tool_info: OnceCell::new(),
            reward_info: OnceCell::new(),
        };
        Ok(Self { shared: Arc::new(shared), rooms: None, assets: Assets::default(), granted: None, world: None })
    }

    /// The same plugin, trusted so far that up to `episodes` of its environment's episodes or its tool's sessions
    /// share one instance: far less memory for each, but a trap ends them all, and nothing but the plugin keeps one
    /// from seeing what another left. Its rewards have instances of their own all the same.
    #[must_use]
    pub fn shared_by(&self, episodes: NonZeroU32) -> Self {
        let rooms = AllRooms {
            environments: Rooms::new(episodes.get(), environment::close),
            tools: Rooms::new(episodes.get(), tool::close),
        };
        Self { rooms: Some(Arc::new(rooms)), ..self.clone() }
    }

    /// The same plugin with these files mounted.
    #[must_use]
    pub fn with_assets(&self, assets: Assets) -> Self {
        Self { assets, ..self.clone() }
    }

    /// The same plugin with the world that a run grants it. It asks nobody yet: see [`Plugin::asking`].
    #[must_use]
    pub fn granting(&self, world: Arc<dyn Outbound>) -> Self {
        Self { granted: Some(world), ..self.clone() }
    }

    /// The world that the run grants it.
    #[must_use]
    pub fn granted(&self) -> Option<&Arc<dyn Outbound>> {
        self.granted.as_ref()
    }

    /// The same plugin for one episode, session or scoring, in which it asks this world.
    #[must_use]
    pub fn asking(&self, world: Arc<dyn Outbound>) -> Self {
        Self { world: Some(world), ..self.clone() }
    }

    /// The same plugin with nobody to ask.
    pub(crate) fn of_nobody(&self) -> Self {
        Self { world: None, ..self.clone() }
    }

    pub(crate) fn world(&self) -> Option<&Arc<dyn Outbound>> {
        self.world.as_ref()
    }

    pub(crate) fn assets(&self) -> &Assets {
        &self.assets
    }

    pub(crate) fn rooms(&self) -> Option<&AllRooms> {
        self.rooms.as_deref()
    }

    /// What it says of itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.shared.manifest
    }

    /// The sha256 of its file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.shared.digest
    }

    /// Its name without its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.manifest().name.name()
    }

    /// Whether it offers an optional interface.
    #[must_use]
    pub fn offers(&self, optional: OptionalInterface) -> bool {
        let indices = self.indices();
        match optional {
            OptionalInterface::Snapshot => indices.snapshot.is_some(),
            OptionalInterface::StateKey => indices.state_key.is_some(),
            OptionalInterface::Privileged => indices.privileged.is_some(),
            OptionalInterface::Oracle => indices.oracle.is_some(),
            OptionalInterface::Guidance => indices.guidance.is_some(),
            OptionalInterface::Render => indices.render.is_some(),
            OptionalInterface::ToolSnapshot => indices.tool_snapshot.is_some(),
            OptionalInterface::FinalView => indices.final_view.is_some(),
        }
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.shared.sandbox
    }

    pub(crate) fn linked(&self) -> &InstancePre<State> {
        &self.shared.linked
    }

    /// How many of the sandbox's places one live instance takes.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.shared.places
    }

    /// Memory that an instance begins with and that its limit does not count, in bytes.
    pub(crate) fn uncounted(&self) -> usize {
        self.shared.uncounted
    }

    pub(crate) fn indices(&self) -> &Indices {
        &self.shared.indices
    }

    pub(crate) fn environment_cell(&self) -> &OnceCell<Arc<EnvironmentInfo>> {
        &self.shared.environment_info
    }

    pub(crate) fn tool_cell(&self) -> &OnceCell<Arc<ToolInfo>> {
        &self.shared.tool_info
    }

    pub(crate) fn reward_cell(&self) -> &OnceCell<Arc<RewardInfo>> {
        &self.shared.reward_info
    }
}

/// Everything that can be checked before a byte is compiled.
fn checked_manifest(origin: &str, bytes: &[u8], grants: &Grants) -> Result<Manifest, LoadError> {
    let origin = || origin.to_owned();
    let manifest = read_manifest(bytes).map_err(|source| LoadError::Manifest { origin: origin(), source })?;
    manifest.check_contract().map_err(|source| LoadError::Contract { origin: origin(), source })?;
    let imports = imports(bytes)
        .map_err(|source| LoadError::Manifest { origin: origin(), source: ManifestError::Component(source) })?;
    grant::decide(&manifest, &imports, grants).map_err(|source| LoadError::Refused { origin: origin(), source })?;
    Ok(manifest)
}
