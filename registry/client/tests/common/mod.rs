//! Servers and clients on loopback: the registry server, a misbehaving static server, and clients with separate caches.
#![allow(dead_code, unused_imports, reason = "each test file uses some of these")]

#[path = "../../../tests/common/plugins.rs"]
pub mod plugins;
#[path = "../../../tests/common/registry.rs"]
pub mod registry;
pub mod tricks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gymkhana_registry::{
    AcceptedCheckpoint, Authority, ContentFile, Digest, IndexRow, LockEntry, RegistryCheckpoint, RegistryFolder,
    Requirement, SecretKey, write_index,
};
use gymkhana_registry_client::{
    ClientFolders, ClientSettings, RegistryClient, RegistryClientError, RegistryConfig, TransferLimits, Unpinned,
};
use gymkhana_registry_server::{PublishTokens, RegistryServer, ServerLimits};

pub use registry::{DAY, Made, acme, add_file, key, name, pinned, registry_by, root, said};

/// Environment variable with the token of `acme`.
pub const TOKEN: &str = "GYMKHANA_ACME_TOKEN";

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Authority of a root key at the current time.
pub fn by(root: &SecretKey) -> Authority<'_> {
    Authority { root: Some(root), lifetime: DAY, now: now() }
}

/// A registry in a temporary folder with the plugins of [`stock`].
pub struct Shop {
    pub folder: tempfile::TempDir,
    pub registry: RegistryFolder,
}

/// `acme/adder` 1.0.0 and 1.1.0, and `acme/other` 1.0.0.
pub fn stock() -> [Made; 3] {
    [Made::version("1.0.0"), Made::version("1.1.0"), Made::of("acme/other", "1.0.0")]
}

impl Shop {
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = registry_by(&folder.path().join("registry"), by(&root()));
        Self { folder, registry }
    }

    pub fn new() -> Self {
        let shop = Self::empty();
        for made in stock() {
            shop.add(&made);
        }
        shop
    }

    pub fn add(&self, made: &Made) -> IndexRow {
        add_file(&self.registry, &made.signed(), &made.component(), by(&root())).expect("added")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn state(&self) -> AcceptedCheckpoint {
        self.registry.state(Some(&pinned())).expect("a state")
    }

    pub fn rows(&self, plugin: &str) -> Vec<IndexRow> {
        self.registry.rows(&self.state(), &name(plugin)).expect("rows")
    }

    /// Path of a version's component.
    pub fn component_path(&self, plugin: &str, version: &str) -> String {
        let rows = self.rows(plugin);
        let row = rows.iter().find(|row| row.version.to_string() == version).expect("a version");
        ContentFile::Component(row.digest).path()
    }

    /// Changes the index of a plugin and signs the next checkpoint, which requires the root key.
    pub fn forge(&self, plugin: &str, change: impl FnOnce(&mut Vec<IndexRow>)) {
        let mut rows = self.rows(plugin);
        change(&mut rows);
        let text = write_index(&rows).expect("JSON");
        let digest = Digest::of(text.as_bytes());
        self.registry
            .content_store()
            .write(&ContentFile::Index(name(plugin), digest), text.as_bytes())
            .expect("written");
        self.forge_checkpoint(|checkpoint| {
            checkpoint.index.insert(name(plugin), digest);
        });
    }

    pub fn forge_checkpoint(&self, change: impl FnOnce(&mut RegistryCheckpoint)) {
        let mut checkpoint = self.state().checkpoint;
        checkpoint.sequence += 1;
        change(&mut checkpoint);
        self.registry.write_checkpoint(&checkpoint.sign(Some(&root())).expect("JSON")).expect("shown");
    }

    /// Starts a registry server that runs until the runtime is dropped.
    pub async fn serve(&self) -> SocketAddr {
        self.serve_within(ServerLimits::default()).await
    }

    pub async fn serve_within(&self, limits: ServerLimits) -> SocketAddr {
        let any = "127.0.0.1:0".parse().expect("an address");
        let server = RegistryServer::start(self.registry.path(), root(), DAY, any, limits, Box::new(|_| ())).await;
        let server = server.expect("a server");
        let address = server.address();
        tokio::spawn(server.serve());
        address
    }

    /// Creates a publishing token for namespaces.
    pub fn token(&self, namespaces: &[&str]) -> String {
        let namespaces = namespaces.iter().map(|namespace| namespace.parse().expect("a namespace")).collect();
        PublishTokens::of_registry(self.registry.path()).add(namespaces).expect("a token")
    }
}

/// A user with a cache and a record of seen checkpoints.
pub struct User {
    pub folder: tempfile::TempDir,
}

impl User {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A client with this configuration text.
    pub fn client_of(&self, config: &str, change: impl FnOnce(&mut ClientSettings)) -> RegistryClient {
        let config =
            RegistryConfig::parse(config, &self.folder.path().join("gymkhana-registries.toml")).expect("a config");
        let places = ClientFolders { cache: self.folder.path().join("cache"), seen: self.folder.path().join("seen") };
        let mut settings = ClientSettings::new(places, false);
        settings.limits = TransferLimits {
            idle_timeout: Duration::from_secs(20),
            grace_period: Duration::from_millis(300),
            min_bytes_per_second: 20_000,
            retries: 1,
            retry_delay: Duration::from_millis(1),
            ..TransferLimits::default()
        };
        change(&mut settings);
        RegistryClient::new(config, settings).expect("a client")
    }

    /// A client of the registry at this address.
    pub fn client(&self, address: SocketAddr) -> RegistryClient {
        self.client_of(&web(address, ""), |_| ())
    }

    /// An offline client of the registry at this address.
    pub fn offline(&self, address: SocketAddr) -> RegistryClient {
        self.client_of(&web(address, ""), |settings| settings.offline = true)
    }

    /// File names of the components in the cache.
    pub fn cached(&self) -> Vec<String> {
        let folder = self.folder.path().join("cache/components");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Configuration of a web registry for `acme` with additional lines in its section.
pub fn web(address: SocketAddr, more: &str) -> String {
    let root = pinned();
    format!("[registries.shop]\nurl = 'http://{address}/'\nroot = '{root}'\n{more}\n[namespaces]\nacme = 'shop'\n")
}

/// Resolves and fetches a plugin.
pub async fn get(client: &RegistryClient, wanted: &str) -> Result<Vec<u8>, RegistryClientError> {
    let pinned = resolve(client, wanted).await?;
    client.component(&pinned).await
}

pub async fn resolve(client: &RegistryClient, wanted: &str) -> Result<LockEntry, RegistryClientError> {
    let wanted: Requirement = wanted.parse().expect("a requirement");
    Ok(client.resolve(&[wanted], None, Unpinned::Resolve).await?.remove(0))
}

/// A plain HTTP client with one connection per request.
pub fn reqwest_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client")
}
