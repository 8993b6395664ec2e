//! From a plugin's name to its bytes: which registry, which version, and whether it is what its publisher signed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    CatalogueRow, Contents, ContractStamp, Lock, LockEntry, PluginName, RegistryFolder, Row, Standing, Unresolved,
    Wanted, WantedName, choose,
};
use semver::VersionReq;

use crate::config::{Config, Source, Trust};
use crate::error::ClientError;
use crate::http::{Patience, Web};
use crate::oci::{Oci, Tokens};
use crate::site::{Asking, Place, Site, nearest};
use crate::vouchers::{SourceId, Vouchers};

/// How many plugins are asked for at once.
const SIDE_BY_SIDE: usize = 16;

/// Where this user's files are.
#[derive(Debug, Clone)]
pub struct Places {
    /// Components and releases by digest; may be deleted at any time.
    pub cache: PathBuf,
    /// What was seen of registries; whoever deletes it forgets that.
    pub memory: PathBuf,
}

/// How registries are asked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where files are kept.
    pub places: Places,
    /// Whether nobody may be asked: what is not here is missing.
    pub offline: bool,
    /// How long somebody is waited for.
    pub patience: Patience,
    /// The time in seconds since 1970, if it is not this machine's.
    pub now: Option<u64>,
    /// Where tokens and passwords are: the environment, by the names that the user gave.
    pub variable: fn(&str) -> Option<String>,
}

impl Settings {
    /// As usual.
    #[must_use]
    pub fn new(places: Places, offline: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self { places, offline, patience: Patience::default(), now: None, variable }
    }
}

/// What happens when something asked for is not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlocked {
    /// It is resolved.
    Resolve,
    /// It is refused: `--locked`.
    Refuse,
}

/// A plugin that a search found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The registry's name.
    pub registry: String,
    /// Its line in the catalogue.
    pub row: CatalogueRow,
}

/// Asks the registries that the user has named.
#[derive(Debug)]
pub struct Client {
    pub(crate) config: Config,
    registries: BTreeMap<String, Registry>,
    pub(crate) cache: Contents,
    pub(crate) vouchers: Vouchers,
    pub(crate) asking: Asking,
    pub(crate) variable: fn(&str) -> Option<String>,
    notices: Mutex<Vec<String>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) enum Registry {
    Site(Box<Site>),
    Oci(Box<Oci>),
}

impl Registry {
    /// What tells it from other sources.
    pub fn id(&self) -> SourceId {
        match self {
            Self::Site(site) => site.id(),
            Self::Oci(oci) => oci.id(),
        }
    }

    /// Whether nobody signs there: the user has said so.
    pub fn is_unsigned(&self) -> bool {
        match self {
            Self::Site(site) => site.trust == Trust::Unsigned,
            Self::Oci(oci) => oci.keys().is_none(),
        }
    }
}

impl Client {
    /// A client of these registries. Nobody is asked yet.
    ///
    /// # Errors
    /// If no HTTP client can be set up.
    pub fn new(config: Config, settings: Settings) -> Result<Self, ClientError> {
        let Settings { places, offline, patience, now, variable } = settings;
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let asking = Asking { offline, now: now.unwrap_or_else(clock) };
        let mut registries = BTreeMap::new();
        for (name, source) in &config.registries {
            registries.insert(name.clone(), registry(name, source, &places.memory, patience, variable)?);
        }
        let notices = Mutex::default();
        let cache = Contents::new(places.cache);
        let vouchers = Vouchers::beside(&cache);
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
    pub(crate) fn serves(&self, namespace: &str) -> Result<(&str, &Registry), ClientError> {
        let name = self.config.namespaces.get(namespace);
        let name = name.ok_or_else(|| ClientError::NoRegistry(namespace.to_owned()))?;
        Ok((name, self.named(name)?))
    }

    /// The registry of a name.
    pub(crate) fn named(&self, name: &str) -> Result<&Registry, ClientError> {
        self.registries.get(name).ok_or_else(|| {
            let known: Vec<String> = self.registries.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            ClientError::UnknownRegistry { name: name.to_owned(), known }
        })
    }

    /// The full name of what is asked for: as it is locked, else as one registry alone has it.
    ///
    /// # Errors
    /// If none or several have it.
    pub async fn full_name(&self, wanted: &WantedName, lock: Option<&Lock>) -> Result<PluginName, ClientError> {
        let short = match wanted {
            WantedName::Full(name) => return Ok(name.clone()),
            WantedName::Short(short) => short,
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
            (None, _) => Err(ClientError::UnknownShort { name: short.clone(), near }),
            (Some(one), Some(other)) => {
                let all: Vec<String> =
                    [one, other].into_iter().chain(candidates).map(|name| format!("`{name}`")).collect();
                Err(ClientError::Ambiguous { name: short.clone(), candidates: all.join(" or ") })
            }
        }
    }

    /// The registries that can list what they have.
    fn sites(&self) -> impl Iterator<Item = (&str, &Site)> {
        self.registries.iter().filter_map(|(name, registry)| match registry {
            Registry::Site(site) => Some((name.as_str(), &**site)),
            Registry::Oci(_) => None,
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
        wanted: &[Wanted],
        lock: Option<&Lock>,
        unlocked: Unlocked,
    ) -> Result<Vec<LockEntry>, ClientError> {
        let one = |wanted: Wanted| async move { self.resolve_one(&wanted, lock, unlocked).await };
        stream::iter(wanted.to_vec()).map(one).buffered(SIDE_BY_SIDE).try_collect().await
    }

    async fn resolve_one(
        &self,
        wanted: &Wanted,
        lock: Option<&Lock>,
        unlocked: Unlocked,
    ) -> Result<LockEntry, ClientError> {
        let not_locked = || ClientError::NotLocked { wanted: wanted.to_string() };
        let is_locked = |entry: &LockEntry| match &wanted.name {
            WantedName::Full(name) => entry.name == *name,
            WantedName::Short(short) => entry.name.name() == short,
        };
        if unlocked == Unlocked::Refuse && !lock.is_some_and(|lock| lock.entries().iter().any(is_locked)) {
            return Err(not_locked());
        }
        let name = self.full_name(&wanted.name, lock).await?;
        let host = ContractStamp::of_this_host();
        let fits = |entry: &&LockEntry| wanted.versions.matches(&entry.version) && entry.contract == host;
        if let Some(locked) = lock.and_then(|lock| lock.get(&name)).filter(fits) {
            return Ok(locked.clone());
        }
        if unlocked == Unlocked::Refuse {
            return Err(not_locked());
        }
        let (registry, rows) = self.rows(&name, &wanted.versions).await?;
        let chosen = self.chosen(&name, rows, &wanted.versions, &host).await?;
        chosen.map_err(|source| ClientError::Unresolved { registry, name, source: Box::new(source) })
    }

    /// The version to use of these. What a key signed that was revoked is passed over, and said if it would be used.
    async fn chosen(
        &self,
        name: &PluginName,
        rows: Vec<Row>,
        wanted: &VersionReq,
        host: &ContractStamp,
    ) -> Result<Result<LockEntry, Unresolved>, ClientError> {
        let (_, serving) = self.serves(name.namespace())?;
        let checkpoint = match serving {
            Registry::Site(site) => Some(&site.state(self.asking).await?.accepted.checkpoint),
            Registry::Oci(_) => None,
        };
        let is_revoked = |row: &Row| {
            let standing = |key| checkpoint.map(|checkpoint| checkpoint.standing(name.namespace(), &key));
            row.signer.and_then(standing) == Some(Standing::Revoked)
        };
        let (revoked, counting): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_revoked);
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
                Err(Unresolved::Revoked { wanted: wanted.clone(), newest })
            }
            (Err(error), None) => Err(error),
        })
    }

    /// The versions of a plugin, at least those that are asked for, and the registry's name.
    pub(crate) async fn rows(
        &self,
        name: &PluginName,
        versions: &VersionReq,
    ) -> Result<(String, Vec<Row>), ClientError> {
        let (registry, serving) = self.serves(name.namespace())?;
        let rows = match serving {
            Registry::Site(site) => site.rows(name, self.asking).await?,
            Registry::Oci(oci) => {
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
    pub async fn search(&self, words: &[String]) -> Result<Vec<Found>, ClientError> {
        let mut found = Vec::new();
        for (registry, serving) in &self.registries {
            match serving {
                Registry::Oci(_) => {
                    self.notice(format!("registry `{registry}` is an OCI registry, which cannot be searched"));
                }
                Registry::Site(site) => {
                    let rows = site.catalogue(self.asking).await?.into_iter();
                    let rows = rows.filter(|row| self.is_served(&row.name, registry) && row.has_all(words));
                    found.extend(rows.map(|row| Found { registry: registry.clone(), row }));
                }
            }
        }
        found.sort_by(|one, other| one.row.name.cmp(&other.row.name));
        Ok(found)
    }
}

fn registry(
    name: &str,
    source: &Source,
    memory: &Path,
    patience: Patience,
    variable: fn(&str) -> Option<String>,
) -> Result<Registry, ClientError> {
    let failed = |source| ClientError::Fetch { registry: name.to_owned(), what: "anything".to_owned(), source };
    let name_of = name.to_owned();
    Ok(match source {
        Source::Folder { path, trust } => {
            let place = Place::Folder(RegistryFolder::at(path));
            Registry::Site(Box::new(Site::new(name_of, place, *trust, memory)))
        }
        Source::Web { url, trust, also, token } => {
            let web = Web::new(also.clone(), patience).map_err(failed)?;
            let place = Place::Web { web, url: url.clone(), token: token.clone() };
            Registry::Site(Box::new(Site::new(name_of, place, *trust, memory)))
        }
        Source::Oci { url, keys, also, credentials } => {
            let web = Web::new(also.clone(), patience).map_err(failed)?;
            let tokens = Tokens::new(also.clone(), credentials.clone(), variable);
            Registry::Oci(Box::new(Oci::new(name_of, web, url.clone(), keys.clone(), tokens)))
        }
    })
}
