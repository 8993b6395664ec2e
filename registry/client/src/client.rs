//! From a plugin's name to its bytes: which registry, which version, and whether it is what its publisher signed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    CatalogueRow, ContentStore, ContractStamp, Lock, LockEntry, PluginName, RegistryFolder, IndexRow, ReleaseStatus, ResolveError,
    Requirement, RequirementName, choose,
};
use semver::VersionReq;

use crate::config::{RegistryConfig, RegistrySource, Trust};
use crate::error::RegistryClientError;
use crate::http::{TransferLimits, HttpTransport};
use crate::oci::{OciRegistry, OciCredentials};
use crate::site::{Access, Location, Remote, nearest};
use crate::vouchers::{SourceId, ProvenanceStore};

/// How many plugins are asked for at once.
const SIDE_BY_SIDE: usize = 16;

/// Where this user's files are.
#[derive(Debug, Clone)]
pub struct ClientFolders {
    /// Components and releases by digest; may be deleted at any time.
    pub cache: PathBuf,
    /// What was seen of registries; whoever deletes it forgets that.
    pub memory: PathBuf,
}

/// How registries are asked.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Where files are kept.
    pub places: ClientFolders,
    /// Whether nobody may be asked: what is not here is missing.
    pub offline: bool,
    /// How long somebody is waited for.
    pub patience: TransferLimits,
    /// The time in seconds since 1970, if it is not this machine's.
    pub now: Option<u64>,
    /// Where tokens and passwords are: the environment, by the names that the user gave.
    pub variable: fn(&str) -> Option<String>,
}

impl ClientSettings {
    /// As usual.
    #[must_use]
    pub fn new(places: ClientFolders, offline: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self { places, offline, patience: TransferLimits::default(), now: None, variable }
    }
}

/// What happens when something asked for is not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpinned {
    /// It is resolved.
    Resolve,
    /// It is refused: `--locked`.
    Refuse,
}

/// A plugin that a search found.
#[derive(Debug, Clone)]
pub struct SearchHit {
    /// The registry's name.
    pub registry: String,
    /// Its line in the catalogue.
    pub row: CatalogueRow,
}

/// Asks the registries that the user has named.
#[derive(Debug)]
pub struct RegistryClient {
    pub(crate) config: RegistryConfig,
    registries: BTreeMap<String, Backend>,
    pub(crate) cache: ContentStore,
    pub(crate) vouchers: ProvenanceStore,
    pub(crate) asking: Access,
    pub(crate) variable: fn(&str) -> Option<String>,
    notices: Mutex<Vec<String>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) enum Backend {
    Remote(Box<Remote>),
    Oci(Box<Oci>),
}

impl Backend {
    /// What tells it from other sources.
    pub fn id(&self) -> SourceId {
        match self {
            Self::Remote(site) => site.id(),
            Self::Oci(oci) => oci.id(),
        }
    }

    /// Whether nobody signs there: the user has said so.
    pub fn is_unsigned(&self) -> bool {
        match self {
            Self::Remote(site) => site.trust == Trust::Unsigned,
            Self::Oci(oci) => oci.keys().is_none(),
        }
    }
}

impl RegistryClient {
    /// A client of these registries. Nobody is asked yet.
    ///
    /// # Errors
    /// If no HTTP client can be set up.
    pub fn new(config: RegistryConfig, settings: ClientSettings) -> Result<Self, RegistryClientError> {
        let ClientSettings { places, offline, patience, now, variable } = settings;
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let asking = Access { offline, now: now.unwrap_or_else(clock) };
        let mut registries = BTreeMap::new();
        for (name, source) in &config.registries {
            registries.insert(name.clone(), registry(name, source, &places.memory, patience, variable)?);
        }
        let notices = Mutex::default();
        let cache = ContentStore::new(places.cache);
        let vouchers = ProvenanceStore::beside(&cache);
        Ok(Self { config, registries, cache, vouchers, asking, variable, notices })
    }

    /// What the user should hear of, though it stopped nothing; told once.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        self.notices.lock().map(|mut notices| std::mem::take(&mut *notices)).unwrap_or_default()
    }

    pub(crate) fn notice(&self, text: String) {
        if let Ok(mut notices) = self.notices.lock()
            && !notices.contains(&text)
        {
            notices.push(text);
        }
    }

    /// The registry that serves a namespace.
    pub(crate) fn serves(&self, namespace: &str) -> Result<(&str, &Backend), RegistryClientError> {
        let name = self.config.namespaces.get(namespace);
        let name = name.ok_or_else(|| RegistryClientError::NoRegistry(namespace.to_owned()))?;
        Ok((name, self.named(name)?))
    }

    /// The registry of a name.
    pub(crate) fn named(&self, name: &str) -> Result<&Backend, RegistryClientError> {
        self.registries.get(name).ok_or_else(|| {
            let known: Vec<String> = self.registries.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            RegistryClientError::UnknownRegistry { name: name.to_owned(), known }
        })
    }

    /// The full name of what is asked for: as it is locked, else as one registry alone has it.
    ///
    /// # Errors
    /// If none or several have it.
    pub async fn full_name(&self, wanted: &RequirementName, lock: Option<&Lock>) -> Result<PluginName, RegistryClientError> {
        let short = match wanted {
            RequirementName::Full(name) => return Ok(name.clone()),
            RequirementName::Short(short) => short,
        };
        let locked: BTreeSet<PluginName> = lock
            .into_iter()
            .flat_map(Lock::entries)
            .filter(|entry| entry.name.name() == short)
            .map(|entry| entry.name.clone())
            .collect();
        let mut candidates = locked;
        let mut near = String::new();
        if candidates.is_empty() {
            for (registry, site) in self.sites() {
                let state = site.state(self.asking).await?;
                let served = || state.accepted.checkpoint.index.keys().filter(|name| self.is_served(name, registry));
                candidates.extend(served().filter(|name| name.name() == short).cloned());
                if near.is_empty() {
                    near = nearest(short, served());
                }
            }
        }
        let mut candidates = candidates.into_iter();
        match (candidates.next(), candidates.next()) {
            (Some(name), None) => Ok(name),
            (None, _) => Err(RegistryClientError::UnknownShort { name: short.clone(), near }),
            (Some(one), Some(other)) => {
                let all: Vec<String> =
                    [one, other].into_iter().chain(candidates).map(|name| format!("`{name}`")).collect();
                Err(RegistryClientError::Ambiguous { name: short.clone(), candidates: all.join(" or ") })
            }
        }
    }

    /// The registries that can list what they have.
    fn sites(&self) -> impl Iterator<Item = (&str, &Remote)> {
        self.registries.iter().filter_map(|(name, registry)| match registry {
            Backend::Remote(site) => Some((name.as_str(), &**site)),
            Backend::Oci(_) => None,
        })
    }

    /// Whether a registry may speak of this plugin: what it holds of other namespaces is nobody's.
    fn is_served(&self, name: &PluginName, registry: &str) -> bool {
        self.config.namespaces.get(name.namespace()).is_some_and(|serving| serving == registry)
    }

    /// Pins what is asked for, in its order: as it is locked where that fits, else to the newest version that this host
    /// can run.
    ///
    /// # Errors
    /// If something cannot be resolved, or is not locked and must be.
    pub async fn resolve(
        &self,
        wanted: &[Requirement],
        lock: Option<&Lock>,
        unlocked: Unpinned,
    ) -> Result<Vec<LockEntry>, RegistryClientError> {
        let one = |wanted: Requirement| async move { self.resolve_one(&wanted, lock, unlocked).await };
        stream::iter(wanted.to_vec()).map(one).buffered(SIDE_BY_SIDE).try_collect().await
    }

    async fn resolve_one(
        &self,
        wanted: &Requirement,
        lock: Option<&Lock>,
        unlocked: Unpinned,
    ) -> Result<LockEntry, RegistryClientError> {
        let not_locked = || RegistryClientError::NotLocked { wanted: wanted.to_string() };
        let is_locked = |entry: &LockEntry| match &wanted.name {
            RequirementName::Full(name) => entry.name == *name,
            RequirementName::Short(short) => entry.name.name() == short,
        };
        if unlocked == Unpinned::Refuse && !lock.is_some_and(|lock| lock.entries().iter().any(is_locked)) {
            return Err(not_locked());
        }
        let name = self.full_name(&wanted.name, lock).await?;
        let host = ContractStamp::of_this_host();
        let fits = |entry: &&LockEntry| wanted.versions.matches(&entry.version) && entry.contract == host;
        if let Some(locked) = lock.and_then(|lock| lock.get(&name)).filter(fits) {
            return Ok(locked.clone());
        }
        if unlocked == Unpinned::Refuse {
            return Err(not_locked());
        }
        let (registry, rows) = self.rows(&name, &wanted.versions).await?;
        let chosen = self.chosen(&name, rows, &wanted.versions, &host).await?;
        chosen.map_err(|source| RegistryClientError::Unresolved { registry, name, source: Box::new(source) })
    }

    /// The version to use of these. What a key signed that was revoked is passed over, and said if it would be used.
    async fn chosen(
        &self,
        name: &PluginName,
        rows: Vec<IndexRow>,
        wanted: &VersionReq,
        host: &ContractStamp,
    ) -> Result<Result<LockEntry, ResolveError>, RegistryClientError> {
        let (_, serving) = self.serves(name.namespace())?;
        let checkpoint = match serving {
            Backend::Remote(site) => Some(&site.state(self.asking).await?.accepted.checkpoint),
            Backend::Oci(_) => None,
        };
        let is_revoked = |row: &IndexRow| {
            let standing = |key| checkpoint.map(|checkpoint| checkpoint.release_status(name.namespace(), &key));
            row.signer.and_then(standing) == Some(ReleaseStatus::Revoked)
        };
        let (revoked, counting): (Vec<IndexRow>, Vec<IndexRow>) = rows.into_iter().partition(is_revoked);
        let passed_over = choose(&revoked, wanted, None, host).ok();
        let chosen = choose(&counting, wanted, None, host);
        Ok(match (chosen, passed_over) {
            (Ok(row), Some(other)) if other.version > row.version => {
                let (newer, version) = (&other.version, &row.version);
                self.notice(format!(
                    "`{name}` {newer} is passed over: the key that signed it was revoked; {version} is the newest that still counts"
                ));
                Ok(row.pin())
            }
            (Ok(row), _) => Ok(row.pin()),
            (Err(_), Some(_)) => {
                let newest = choose(&counting, &VersionReq::STAR, None, host).ok().map(|row| row.version.clone());
                Err(ResolveError::Revoked { wanted: wanted.clone(), newest })
            }
            (Err(error), None) => Err(error),
        })
    }

    /// The versions of a plugin, at least those that are asked for, and the registry's name.
    pub(crate) async fn rows(
        &self,
        name: &PluginName,
        versions: &VersionReq,
    ) -> Result<(String, Vec<IndexRow>), RegistryClientError> {
        let (registry, serving) = self.serves(name.namespace())?;
        let rows = match serving {
            Backend::Remote(site) => site.rows(name, self.asking).await?,
            Backend::Oci(oci) => {
                let offers = oci.offers(name, versions, &self.cache, self.asking).await?;
                offers.into_iter().map(|offer| offer.row).collect()
            }
        };
        Ok((registry.to_owned(), rows))
    }

    /// The plugins in whose names or descriptions all these words stand, sorted by name. Registries that can list
    /// nothing are left out, with a notice.
    ///
    /// # Errors
    /// If a registry cannot be asked.
    pub async fn search(&self, words: &[String]) -> Result<Vec<SearchHit>, RegistryClientError> {
        let mut found = Vec::new();
        for (registry, serving) in &self.registries {
            match serving {
                Backend::Oci(_) => {
                    self.notice(format!("registry `{registry}` is an OCI registry, which cannot be searched"));
                }
                Backend::Remote(site) => {
                    let rows = site.catalogue(self.asking).await?.into_iter();
                    let rows = rows.filter(|row| self.is_served(&row.name, registry) && row.matches_all(words));
                    found.extend(rows.map(|row| SearchHit { registry: registry.clone(), row }));
                }
            }
        }
        found.sort_by(|one, other| one.row.name.cmp(&other.row.name));
        Ok(found)
    }
}

fn registry(
    name: &str,
    source: &RegistrySource,
    memory: &Path,
    patience: TransferLimits,
    variable: fn(&str) -> Option<String>,
) -> Result<Backend, RegistryClientError> {
    let failed = |source| RegistryClientError::Fetch { registry: name.to_owned(), what: "anything".to_owned(), source };
    let name_of = name.to_owned();
    Ok(match source {
        RegistrySource::Folder { path, trust } => {
            let place = Location::Folder(RegistryFolder::at(path));
            Backend::Remote(Box::new(Remote::new(name_of, place, *trust, memory)))
        }
        RegistrySource::Web { url, trust, also, token } => {
            let web = HttpTransport::new(also.clone(), patience).map_err(failed)?;
            let place = Location::Web { web, url: url.clone(), token: token.clone() };
            Backend::Remote(Box::new(Remote::new(name_of, place, *trust, memory)))
        }
        RegistrySource::Oci { url, keys, also, credentials } => {
            let web = HttpTransport::new(also.clone(), patience).map_err(failed)?;
            let tokens = OciCredentials::new(also.clone(), credentials.clone(), variable);
            Backend::Oci(Box::new(OciRegistry::new(name_of, web, url.clone(), keys.clone(), tokens)))
        }
    })
}
