//! A loaded plugin: checked, compiled and ready to start.

pub(crate) mod wrapping;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_record::{FailureKind, NamedValue};
use gymkhana_registry::{
    ContractError, Digest, Kind, Manifest, ManifestError, PluginFileError, exports, imports, read_manifest,
    read_plugin_file, structure,
};
use tokio::sync::OnceCell;
use wasmtime::component::InstancePre;

use crate::compiler::{CompileError, CompilerFailure};
use crate::engine::TABLES_PER_PLACE;
use crate::engine::code_form::Weight;
use crate::exports::{EnvironmentExports, ExportIndices, ToolExports};
use crate::grants::{self, Refusal};
use crate::instance::shared::SharedInstances;
use crate::instance::store_data::StoreData;
use crate::unsandboxed::Unsandboxed;
use crate::{
    Assets, CacheError, CallError, EnvironmentInfo, Grants, Limits, LogSink, OptionalInterface, Outbound, RewardInfo,
    Sandbox, SandboxError, ToolInfo,
};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A plugin cannot be loaded. `origin` is its file, or the caller's name for its bytes.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plugin's file cannot be read.
    #[error(transparent)]
    File(#[from] PluginFileError),
    /// It is not a component, or its manifest is missing or damaged.
    #[error("plugin `{origin}` cannot be used")]
    Manifest {
        /// File or name.
        origin: String,
        /// Cause.
        source: ManifestError,
    },
    /// It was built for another contract.
    #[error("plugin `{origin}` cannot be used")]
    Contract {
        /// File or name.
        origin: String,
        /// Cause.
        source: ContractError,
    },
    /// It imports or requests a capability that it cannot have.
    #[error("plugin `{origin}` was refused")]
    Refused {
        /// File or name.
        origin: String,
        /// Cause.
        source: Refusal,
    },
    /// The engine rejects its code, or its imports and exports are not of the contract's types.
    #[error("plugin `{origin}` does not fit the engine\nhint: build it again for `wasm32-wasip2` with gymkhana-sdk")]
    Engine {
        /// File or name.
        origin: String,
        /// Cause.
        source: Cause,
    },
    /// An instance begins with more memory than the limit.
    #[error(
        "plugin `{origin}` cannot start: it begins with {needed} MiB of memory and `memory_mib` is {limit}\nhint: set \
         `memory_mib` in the run file's section of the plugin, if you trust it with that much"
    )]
    Memory {
        /// File or name.
        origin: String,
        /// Initial memory in MiB, rounded up.
        needed: u64,
        /// Limit in MiB.
        limit: u64,
    },
    /// Compilation took longer than its limit.
    #[error(
        "plugin `{origin}` cannot be compiled: its compiler took longer than the limit of {} s\nhint: use a smaller \
         plugin",
        limit.as_secs_f64()
    )]
    CompileTime {
        /// File or name.
        origin: String,
        /// Limit.
        limit: Duration,
    },
    /// Compilation needed more memory than its limit.
    #[error(
        "plugin `{origin}` cannot be compiled: it needs more memory than the limit of {} MiB\nhint: use a smaller plugin",
        limit >> 20
    )]
    CompileMemory {
        /// File or name.
        origin: String,
        /// Limit in bytes.
        limit: u64,
    },
    /// The compiler could not be started, or did not end as it should.
    #[error("plugin `{origin}` cannot be compiled: {why}\nhint: build it again with gymkhana-sdk")]
    Compiler {
        /// File or name.
        origin: String,
        /// Cause.
        why: String,
    },
    /// An instance needs more places than the pool has.
    #[error(
        "plugin `{origin}` cannot start: one instance needs {needed} places and the pool has {places}\nhint: allow more \
         live instances"
    )]
    TooBig {
        /// File or name.
        origin: String,
        /// Places that one instance needs.
        needed: u32,
        /// Places of the pool.
        places: u32,
    },
    /// The compiled code cannot be cached.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The engine for plugins with a language runtime cannot be set up.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// A loaded plugin. Cheap to clone.
#[derive(Clone)]
pub struct Plugin {
    loaded: Arc<Loaded>,
    /// Environment inside, if this is a wrapper around one.
    pub(crate) link: Option<Arc<Link>>,
    pub(crate) shared_instances: Option<Arc<PluginInstances>>,
    assets: Assets,
    granted: Option<Arc<dyn Outbound>>,
    outbound: Option<Arc<dyn Outbound>>,
    log: Option<Arc<dyn LogSink>>,
}

/// Environment inside a wrapper, and what the wrapper says about itself around it.
pub(crate) struct Link {
    pub inner: Plugin,
    /// Options of the environment inside.
    pub options: Arc<[NamedValue]>,
    pub info: Arc<OnceCell<Arc<EnvironmentInfo>>>,
}

/// Shared instances of a plugin, by kind. Rewards never share an instance.
pub(crate) struct PluginInstances {
    pub environments: SharedInstances<EnvironmentExports>,
    pub tools: SharedInstances<ToolExports>,
}

/// Parts of a plugin that all its clones use.
struct Loaded {
    manifest: Manifest,
    digest: Digest,
    code: Code,
    environment_info: OnceCell<Arc<EnvironmentInfo>>,
    tool_info: OnceCell<Arc<ToolInfo>>,
    reward_info: OnceCell<Arc<RewardInfo>>,
}

/// Code that runs when a plugin is called.
pub(crate) enum Code {
    /// A component, in the sandbox.
    Component(Box<LinkedComponent>),
    /// Code in its place, without a sandbox.
    Unsandboxed(Arc<dyn Unsandboxed>),
}

/// A component, ready to start.
pub(crate) struct LinkedComponent {
    pub sandbox: Sandbox,
    pub linked: InstancePre<StoreData>,
    pub places: u32,
    pub indices: ExportIndices,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({} {}, {:?})", self.manifest().name, self.manifest().version, self.digest())
    }
}

impl Plugin {
    /// Loads a plugin from a file. Compilation blocks for 0.1 s and more: do not call this in an asynchronous task.
    ///
    /// # Errors
    /// See [`LoadError`]; every check that does not need compilation runs before it.
    pub fn load(sandbox: &Sandbox, path: &Path, grants: &Grants) -> Result<Self, LoadError> {
        let bytes = read_plugin_file(path)?;
        Self::from_bytes(sandbox, &path.display().to_string(), &bytes, grants)
    }

    /// Loads a plugin from its bytes; errors name it `origin`.
    ///
    /// # Errors
    /// As [`Plugin::load`].
    pub fn from_bytes(sandbox: &Sandbox, origin: &str, bytes: &[u8], grants: &Grants) -> Result<Self, LoadError> {
        let manifest = checked_manifest(origin, bytes, grants)?;
        check_initial_memory(origin, bytes, sandbox)?;
        let digest = Digest::of(bytes);
        let misfit = |error: wasmtime::Error| LoadError::Engine {
            origin: origin.to_owned(),
            source: error.into_boxed_dyn_error(),
        };
        let failed = |error: CompileError| match error {
            CompileError::Engine(error) => misfit(error),
            CompileError::Compiler(failure) => compiler_failed(origin, failure),
            CompileError::Cache(error) => LoadError::Cache(error),
            CompileError::Sandbox(error) => LoadError::Sandbox(error),
        };
        let weight = Weight::of(bytes);
        let named = format!("{} {}", manifest.name, manifest.version);
        let code = sandbox.compile(digest, &named, bytes).map_err(failed)?;
        let [memories, tables] = code.needs();
        let needed = memories.max(tables.div_ceil(TABLES_PER_PLACE)).max(1).saturating_mul(weight.places());
        let places = sandbox.pool().total();
        if needed > places {
            return Err(LoadError::TooBig { origin: origin.to_owned(), needed, places });
        }
        let linked = sandbox.link(weight, &code).map_err(failed)?;
        let exports = exports(bytes).map_err(|error| LoadError::Manifest {
            origin: origin.to_owned(),
            source: ManifestError::Component(error),
        })?;
        let indices = ExportIndices::find(&linked, &exports).map_err(misfit)?;
        let component = LinkedComponent { sandbox: sandbox.clone(), linked, places: needed, indices };
        Ok(Self::of_code(manifest, digest, Code::Component(Box::new(component))))
    }

    /// Makes a plugin of code without a sandbox. The manifest's capabilities have no effect.
    #[must_use]
    pub fn unsandboxed(manifest: Manifest, digest: Digest, code: Arc<dyn Unsandboxed>) -> Self {
        Self::of_code(manifest, digest, Code::Unsandboxed(code))
    }

    fn of_code(manifest: Manifest, digest: Digest, code: Code) -> Self {
        let loaded = Loaded {
            manifest,
            digest,
            code,
            environment_info: OnceCell::new(),
            tool_info: OnceCell::new(),
            reward_info: OnceCell::new(),
        };
        Self {
            loaded: Arc::new(loaded),
            link: None,
            shared_instances: None,
            assets: Assets::default(),
            granted: None,
            outbound: None,
            log: None,
        }
    }

    /// Returns the plugin with trusted sharing: up to `episodes` episodes of its environment or sessions of its tool
    /// share one instance. Each needs far less memory, but a trap ends all of them, and the host does not isolate their
    /// guest-side state. Rewards and wrappers still get their own instances. Code without a sandbox has no instances.
    #[must_use]
    pub fn with_shared_instances(&self, episodes: NonZeroU32) -> Self {
        if !self.is_sandboxed() || self.is_wrapper() {
            return self.clone();
        }
        let instances = PluginInstances {
            environments: SharedInstances::new(episodes.get()),
            tools: SharedInstances::new(episodes.get()),
        };
        Self { shared_instances: Some(Arc::new(instances)), ..self.clone() }
    }

    /// Returns the plugin with these files mounted.
    #[must_use]
    pub fn with_assets(&self, assets: Assets) -> Self {
        Self { assets, ..self.clone() }
    }

    /// Returns the plugin with the outbound client that a run grants it. The client is not used before
    /// [`Plugin::with_outbound`].
    #[must_use]
    pub fn with_granted_outbound(&self, outbound: Arc<dyn Outbound>) -> Self {
        Self { granted: Some(outbound), ..self.clone() }
    }

    /// Outbound client that the run grants.
    #[must_use]
    pub fn granted(&self) -> Option<&Arc<dyn Outbound>> {
        self.granted.as_ref()
    }

    /// Returns the plugin for one episode, session or scoring, with this outbound client in use.
    #[must_use]
    pub fn with_outbound(&self, outbound: Arc<dyn Outbound>) -> Self {
        Self { outbound: Some(outbound), ..self.clone() }
    }

    /// Returns the plugin with this receiver of its log. Without one, the log is dropped.
    #[must_use]
    pub fn with_log_sink(&self, log: Arc<dyn LogSink>) -> Self {
        Self { log: Some(log), ..self.clone() }
    }

    /// Receiver of the plugin's log.
    #[must_use]
    pub fn log_sink(&self) -> Option<&Arc<dyn LogSink>> {
        self.log.as_ref()
    }

    /// Limit on the plugin's log, in bytes.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.limits().log_bytes
    }

    /// Returns the plugin without an outbound client.
    pub(crate) fn without_outbound(&self) -> Self {
        Self { outbound: None, ..self.clone() }
    }

    pub(crate) fn outbound(&self) -> Option<&Arc<dyn Outbound>> {
        self.outbound.as_ref()
    }

    pub(crate) fn assets(&self) -> &Assets {
        &self.assets
    }

    pub(crate) fn shared_instances(&self) -> Option<&PluginInstances> {
        self.shared_instances.as_deref()
    }

    /// Manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.loaded.manifest
    }

    /// SHA-256 digest of the file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.loaded.digest
    }

    /// Name without the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.manifest().name.name()
    }

    /// Returns whether the plugin offers an optional interface. A wrapper does if the environment inside does as well.
    #[must_use]
    pub fn offers(&self, optional: OptionalInterface) -> bool {
        self.chain().all(|plugin| plugin.exports(optional))
    }

    /// Returns whether the plugin's own code has an optional interface.
    pub(crate) fn exports(&self, optional: OptionalInterface) -> bool {
        match &self.loaded.code {
            Code::Component(component) => optional.is_exported(&component.indices),
            Code::Unsandboxed(code) => code.offers(optional),
        }
    }

    /// Returns whether the plugin runs in the sandbox.
    #[must_use]
    pub fn is_sandboxed(&self) -> bool {
        matches!(self.loaded.code, Code::Component(_))
    }

    /// Returns whether a replay answers the plugin's tool calls from the record, without a call of the plugin.
    #[must_use]
    pub fn replays_from_record(&self) -> bool {
        match &self.loaded.code {
            Code::Component(_) => false,
            Code::Unsandboxed(code) => code.replays_from_record(),
        }
    }

    /// Checks that the plugin is of a kind.
    pub(crate) fn check_kind(&self, kind: Kind) -> Result<(), CallError> {
        if self.manifest().kinds.contains(&kind) { Ok(()) } else { Err(self.lacks(&kind.to_string())) }
    }

    /// Checks that the plugin offers an optional interface.
    pub(crate) fn check_offers(&self, interface: OptionalInterface) -> Result<(), CallError> {
        if self.offers(interface) { Ok(()) } else { Err(self.lacks(interface.name())) }
    }

    fn lacks(&self, interface: &str) -> CallError {
        let name = &self.manifest().name;
        CallError::new(FailureKind::Refused, format!("plugin `{name}` does not offer the interface `{interface}`"))
    }

    pub(crate) fn code(&self) -> &Code {
        &self.loaded.code
    }

    /// The component, which every plugin in the sandbox has.
    pub(crate) fn component(&self) -> Result<&LinkedComponent, CallError> {
        match &self.loaded.code {
            Code::Component(component) => Ok(component),
            Code::Unsandboxed(_) => {
                Err(CallError::new(FailureKind::Fault, format!("plugin `{}` has no component", self.manifest().name)))
            }
        }
    }

    /// Limits on its calls. Code without a sandbox keeps only that of the log.
    pub(crate) fn limits(&self) -> Limits {
        match &self.loaded.code {
            Code::Component(component) => *component.sandbox.limits(),
            Code::Unsandboxed(_) => Limits::default(),
        }
    }

    /// Most memory of one live instance in bytes; `None` without a sandbox.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<usize> {
        self.component().ok().map(|component| component.sandbox.limits().memory_bytes)
    }

    /// Number of the sandbox's places that one live instance takes, with those of the environments inside a wrapper; 0
    /// without a sandbox.
    #[must_use]
    pub fn places(&self) -> u32 {
        let own = |plugin: &Self| match &plugin.loaded.code {
            Code::Component(component) => component.places,
            Code::Unsandboxed(_) => 0,
        };
        self.chain().map(own).sum()
    }

    pub(crate) fn environment_cell(&self) -> &OnceCell<Arc<EnvironmentInfo>> {
        match &self.link {
            Some(link) => &link.info,
            None => &self.loaded.environment_info,
        }
    }

    pub(crate) fn tool_cell(&self) -> &OnceCell<Arc<ToolInfo>> {
        &self.loaded.tool_info
    }

    pub(crate) fn reward_cell(&self) -> &OnceCell<Arc<RewardInfo>> {
        &self.loaded.reward_info
    }
}

/// Runs every check that does not need compilation.
fn checked_manifest(origin: &str, bytes: &[u8], grants: &Grants) -> Result<Manifest, LoadError> {
    let origin = || origin.to_owned();
    let manifest = read_manifest(bytes).map_err(|source| LoadError::Manifest { origin: origin(), source })?;
    manifest.check_contract().map_err(|source| LoadError::Contract { origin: origin(), source })?;
    let imports = imports(bytes)
        .map_err(|source| LoadError::Manifest { origin: origin(), source: ManifestError::Component(source) })?;
    grants::decide(&manifest, &imports, grants).map_err(|source| LoadError::Refused { origin: origin(), source })?;
    Ok(manifest)
}

/// Refuses a plugin whose instances begin with more memory than the limit, whatever its size.
fn check_initial_memory(origin: &str, bytes: &[u8], sandbox: &Sandbox) -> Result<(), LoadError> {
    let structure = structure(bytes)
        .map_err(|error| LoadError::Manifest { origin: origin.to_owned(), source: ManifestError::Component(error) })?;
    let limit = sandbox.limits().memory_bytes as u64;
    if structure.initial_memory <= limit {
        return Ok(());
    }
    let needed = structure.initial_memory.div_ceil(1 << 20);
    Err(LoadError::Memory { origin: origin.to_owned(), needed, limit: limit >> 20 })
}

fn compiler_failed(origin: &str, failure: CompilerFailure) -> LoadError {
    let origin = origin.to_owned();
    match failure {
        CompilerFailure::Time(limit) => LoadError::CompileTime { origin, limit },
        CompilerFailure::Memory(limit) => LoadError::CompileMemory { origin, limit },
        CompilerFailure::Process(why) => LoadError::Compiler { origin, why },
    }
}
