//! Resolution of plugin requirements to pinned versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    ContentStore, ContractStamp, IndexRow, Lock, LockEntry, PluginName, Requirement, RequirementName, ResolveError,
    choose,
};
use semver::VersionReq;

use crate::backend::Backend;
use crate::config::RegistryConfig;
use crate::error::RegistryClientError;
use crate::nearest::nearest;
use crate::remote::{Remote, RemoteAccess};
use crate::transport::TransferLimits;
use crate::trust::ProvenanceStore;

/// Maximum number of plugins resolved concurrently.
const MAX_CONCURRENT: usize = 16;

/// Local folders of a client.
#[derive(Debug, Clone)]
pub struct ClientFolders {
    /// Cache of components and releases; may be deleted at any time.
    pub cache: PathBuf,
    /// Record of seen checkpoints; deleting it removes the protection against rollbacks.
    pub seen: PathBuf,
}

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Local folders.
    pub folders: ClientFolders,
    /// Disables the network; only cached data is used.
    pub offline: bool,
    /// Limits of HTTP transfers.
    pub limits: TransferLimits,
    /// Current time in seconds since 1970; `None` uses the system clock.
    pub now: Option<u64>,
    /// Lookup of environment variables with tokens and passwords.
    pub variable: fn(&str) -> Option<String>,
}

impl ClientSettings {
    /// Default settings.
    #[must_use]
    pub fn new(folders: ClientFolders, offline: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self { folders, offline, limits: TransferLimits::default(), now: None, variable }
    }
}

/// Handling of requirements that the lock file does not satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpinned {
    /// Resolve them with the registry.
    Resolve,
    /// Reject them (`--locked`).
    Reject,
}

/// Client of the configured registries.
#[derive(Debug)]
pub struct RegistryClient {
    pub(crate) config: RegistryConfig,
    pub(crate) registries: BTreeMap<String, Backend>,
    pub(crate) cache: ContentStore,
    pub(crate) provenance: ProvenanceStore,
    pub(crate) access: RemoteAccess,
    pub(crate) variable: fn(&str) -> Option<String>,
    notices: Mutex<Vec<String>>,
}

impl RegistryClient {
    /// Creates a client without contacting a registry.
    ///
    /// # Errors
    /// If no HTTP client can be created.
    pub fn new(config: RegistryConfig, settings: ClientSettings) -> Result<Self, RegistryClientError> {
        let ClientSettings { folders, offline, limits, now, variable } = settings;
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let access = RemoteAccess { offline, now: now.unwrap_or_else(clock) };
        let mut registries = BTreeMap::new();
        for (name, source) in &config.registries {
            registries.insert(name.clone(), Backend::open(name, source, &folders.seen, limits, variable)?);
        }
        let cache = ContentStore::new(folders.cache);
        let provenance = ProvenanceStore::of_cache(&cache);
        Ok(Self { config, registries, cache, provenance, access, variable, notices: Mutex::default() })
    }

    /// Names of the configured registries.
    pub fn registry_names(&self) -> impl Iterator<Item = &str> {
        self.registries.keys().map(String::as_str)
    }

    /// Reads and verifies the current state of a registry. An OCI registry has no state; any answer of its server
    /// suffices.
    ///
    /// # Errors
    /// If the registry is unknown, does not answer, or its state is not valid.
    pub async fn contact(&self, registry: &str) -> Result<(), RegistryClientError> {
        match self.registry(registry)? {
            Backend::Remote(remote) => remote.state(self.access).await.map(drop),
            Backend::Oci(oci) => oci.contact(self.access).await,
        }
    }

    /// Takes the warnings collected so far.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a warning unless it is already present.
    pub(crate) fn add_notice(&self, text: String) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if !notices.contains(&text) {
            notices.push(text);
        }
    }

    /// Name and backend of the registry that serves a namespace.
    pub(crate) fn registry_of(&self, namespace: &str) -> Result<(&str, &Backend), RegistryClientError> {
        let name = self.config.namespaces.get(namespace);
        let name = name.ok_or_else(|| RegistryClientError::NoRegistry(namespace.to_owned()))?;
        Ok((name, self.registry(name)?))
    }

    /// Backend of a registry name.
    pub(crate) fn registry(&self, name: &str) -> Result<&Backend, RegistryClientError> {
        self.registries.get(name).ok_or_else(|| {
            let known: Vec<String> = self.registries.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "no registries".to_owned() } else { known.join(", ") };
            RegistryClientError::UnknownRegistry { name: name.to_owned(), known }
        })
    }

    /// Full name of a requirement: the locked one, otherwise the only plugin with this short name.
    ///
    /// # Errors
    /// If no plugin or several plugins have the short name.
    pub async fn full_name(
        &self,
        required: &RequirementName,
        lock: Option<&Lock>,
    ) -> Result<PluginName, RegistryClientError> {
        let short = match required {
            RequirementName::Full(name) => return Ok(name.clone()),
            RequirementName::Short(short) => short,
        };
        let mut candidates: BTreeSet<PluginName> = lock
            .into_iter()
            .flat_map(Lock::entries)
            .filter(|entry| entry.name.name() == short)
            .map(|entry| entry.name.clone())
            .collect();
        let mut similar = None;
        if candidates.is_empty() {
            if self.registries.is_empty() {
                return Err(RegistryClientError::NoRegistries);
            }
            for (registry, remote) in self.remotes() {
                let state = remote.state(self.access).await?;
                let served = || state.accepted.checkpoint.index.keys().filter(|name| self.is_served_by(name, registry));
                candidates.extend(served().filter(|name| name.name() == short).cloned());
                similar = similar.or_else(|| nearest(short, served()));
            }
        }
        let mut candidates = candidates.into_iter();
        match (candidates.next(), candidates.next()) {
            (Some(name), None) => Ok(name),
            (None, _) => Err(RegistryClientError::UnknownShortName { name: short.clone(), nearest: similar }),
            (Some(one), Some(other)) => {
                let all = [one, other].into_iter().chain(candidates);
                let all: Vec<String> = all.map(|name| format!("`{name}`")).collect();
                Err(RegistryClientError::Ambiguous { name: short.clone(), candidates: all.join(" or ") })
            }
        }
    }

    /// Registries that can list their plugins.
    fn remotes(&self) -> impl Iterator<Item = (&str, &Remote)> {
        self.registries.iter().filter_map(|(name, backend)| match backend {
            Backend::Remote(remote) => Some((name.as_str(), &**remote)),
            Backend::Oci(_) => None,
        })
    }

    /// Returns true if the registry serves the plugin's namespace. Entries of other namespaces are ignored.
    pub(crate) fn is_served_by(&self, name: &PluginName, registry: &str) -> bool {
        self.config.namespaces.get(name.namespace()).is_some_and(|serving| serving == registry)
    }

    /// Pins requirements in order: to the locked version if it matches, otherwise to the newest compatible version.
    ///
    /// # Errors
    /// If a requirement cannot be resolved, or is not locked and `unpinned` rejects that.
    pub async fn resolve(
        &self,
        requirements: &[Requirement],
        lock: Option<&Lock>,
        unpinned: Unpinned,
    ) -> Result<Vec<LockEntry>, RegistryClientError> {
        let resolve = |requirement: Requirement| async move { self.resolve_one(&requirement, lock, unpinned).await };
        stream::iter(requirements.to_vec()).map(resolve).buffered(MAX_CONCURRENT).try_collect().await
    }

    async fn resolve_one(
        &self,
        requirement: &Requirement,
        lock: Option<&Lock>,
        unpinned: Unpinned,
    ) -> Result<LockEntry, RegistryClientError> {
        let not_locked = || RegistryClientError::NotLocked { requirement: requirement.to_string() };
        let is_locked = |entry: &LockEntry| match &requirement.name {
            RequirementName::Full(name) => entry.name == *name,
            RequirementName::Short(short) => entry.name.name() == short,
        };
        if unpinned == Unpinned::Reject && !lock.is_some_and(|lock| lock.entries().iter().any(is_locked)) {
            return Err(not_locked());
        }
        let name = self.full_name(&requirement.name, lock).await?;
        let host = ContractStamp::of_this_host();
        let matches = |entry: &&LockEntry| requirement.versions.matches(&entry.version) && entry.contract == host;
        if let Some(locked) = lock.and_then(|lock| lock.get(&name)).filter(matches) {
            return Ok(locked.clone());
        }
        if unpinned == Unpinned::Reject {
            return Err(not_locked());
        }
        let (registry, rows) = self.rows(&name, &requirement.versions).await?;
        let chosen = self.choose_version(&name, rows, &requirement.versions, &host).await?;
        chosen.map_err(|source| RegistryClientError::Unresolved { registry, name, source: Box::new(source) })
    }

    /// Chooses a version. Releases signed by a revoked key are ignored; a notice names one that would be newer.
    async fn choose_version(
        &self,
        name: &PluginName,
        rows: Vec<IndexRow>,
        required: &VersionReq,
        host: &ContractStamp,
    ) -> Result<Result<LockEntry, ResolveError>, RegistryClientError> {
        let is_revoked = self.revocations(name).await?;
        let (revoked, valid): (Vec<IndexRow>, Vec<IndexRow>) = rows.into_iter().partition(|row| is_revoked(row));
        let ignored = choose(&revoked, required, None, host).ok();
        let chosen = choose(&valid, required, None, host);
        Ok(match (chosen, ignored) {
            (Ok(row), Some(ignored)) if ignored.version > row.version => {
                let (newer, version) = (&ignored.version, &row.version);
                self.add_notice(format!(
                    "`{name}` {newer} is ignored, because its signing key was revoked; using {version}, the newest version with \
                     a valid signature"
                ));
                Ok(row.pin())
            }
            (Ok(row), _) => Ok(row.pin()),
            (Err(_), Some(_)) => {
                let newest = choose(&valid, &VersionReq::STAR, None, host).ok().map(|row| row.version.clone());
                Err(ResolveError::Revoked { required: required.clone(), newest })
            }
            (Err(error), None) => Err(error),
        })
    }

    /// Registry name and index rows of a plugin, at least the rows of the required versions.
    pub(crate) async fn rows(
        &self,
        name: &PluginName,
        required: &VersionReq,
    ) -> Result<(String, Vec<IndexRow>), RegistryClientError> {
        let (registry, backend) = self.registry_of(name.namespace())?;
        let rows = match backend {
            Backend::Remote(remote) => remote.rows(name, self.access).await?,
            Backend::Oci(oci) => {
                let releases = oci.releases(name, required, &self.cache, self.access).await?;
                releases.into_iter().map(|release| release.row).collect()
            }
        };
        Ok((registry.to_owned(), rows))
    }
}
