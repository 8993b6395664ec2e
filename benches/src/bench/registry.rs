//! Cost of a large registry: resolving 20 of 10,000 plugins with 20 versions each from a warm cache, and a thousand
//! simultaneous downloads from a server on the same machine.
//!
//! Each round uses a new client, as a command does, so that only the disk is warm. The same is measured with a request
//! for the registry's state.

#[path = "../../../registry/tests/common/plugins.rs"]
mod plugins;
#[path = "../../../registry/tests/common/registry.rs"]
#[allow(clippy::module_inception, reason = "the fixture is a file of the registry's tests")]
mod registry;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{median, print_in};
use gymkhana_registry::{
    Authority, ContentFile, Digest, IndexRow, NamespaceKeys, PluginName, RegistryCheckpoint, RegistryFolder,
    Requirement, write_index,
};
use gymkhana_registry_client::{
    ClientFolders, ClientSettings, RegistryClient, RegistryConfig, TransferLimits, Unpinned,
};
use gymkhana_registry_server::{RegistryServer, ServerLimits};
use registry::{DAY, Made, acme, add_file, pinned, root};

const PACKAGES: usize = 10_000;
const VERSIONS: u64 = 20;
const WANTED: usize = 20;
const ROUNDS: usize = 31;
const DOWNLOADS: usize = 1000;
/// Size of the downloaded component, in bytes.
const COMPONENT: usize = 300_000;

type Outcome<T> = anyhow::Result<T>;

/// Runs the bench.
pub fn run(effort: Effort) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        resolving(folder.path(), effort).await?;
        downloading(folder.path(), effort.pick(DOWNLOADS, 10)).await
    })
}

fn now() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// A registry of many plugins, whose components are never downloaded.
fn large(folder: &Path, packages: usize) -> Outcome<RegistryFolder> {
    let release = Made::version("1.0.0").release();
    let file = release.sign(Some(&acme()))?;
    let row = IndexRow::new(&release, &file, Some(acme().public()));
    let mut index = BTreeMap::new();
    for package in 0..packages {
        let name = plugin(package)?;
        let version =
            |minor| IndexRow { name: name.clone(), version: semver::Version::new(1, minor, 0), ..row.clone() };
        let text = write_index(&(0..VERSIONS).map(version).collect::<Vec<_>>())?;
        let item = ContentFile::Index(name.clone(), Digest::of(text.as_bytes()));
        let path = folder.join(item.path());
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
        index.insert(name, item.digest());
    }
    let registry = RegistryFolder::at(folder);
    registry.content_store().write(&ContentFile::Catalogue(Digest::of(b"")), b"")?;
    let namespaces =
        [("acme".parse()?, NamespaceKeys { current: [acme().public()].into(), ..NamespaceKeys::default() })];
    let state = RegistryCheckpoint {
        sequence: 1,
        issued: now()?,
        expires: now()? + DAY,
        namespaces: namespaces.into(),
        index,
        ..RegistryCheckpoint::empty(Digest::of(b""))
    };
    registry.write_checkpoint(&state.sign(Some(&root()))?)?;
    Ok(registry)
}

fn plugin(package: usize) -> Outcome<PluginName> {
    Ok(PluginName::new("acme", &format!("plugin-{package:05}"))?)
}

async fn serve(folder: &Path) -> Outcome<SocketAddr> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    // All downloads come from this address.
    let limits = ServerLimits { max_connections_per_network: 2 * DOWNLOADS, ..ServerLimits::default() };
    let server = RegistryServer::start(folder, root(), DAY, any, limits, Box::new(|_| ())).await?;
    let address = server.address();
    tokio::spawn(server.serve());
    Ok(address)
}

fn client(config: &str, user: &Path, offline: bool) -> Outcome<RegistryClient> {
    let config = RegistryConfig::parse(config, Path::new("gymkhana-registries.toml"))?;
    let places = ClientFolders { cache: user.join("cache"), seen: user.join("seen") };
    let settings = ClientSettings {
        limits: TransferLimits { retries: 0, ..TransferLimits::default() },
        ..ClientSettings::new(places, offline)
    };
    Ok(RegistryClient::new(config, settings)?)
}

async fn resolving(folder: &Path, effort: Effort) -> Outcome<()> {
    let packages = effort.pick(PACKAGES, 2 * WANTED);
    let registry = large(&folder.join("large"), packages)?;
    let (address, user) = (serve(registry.path()).await?, folder.join("user"));
    let config =
        format!("[registries.shop]\nurl = 'http://{address}/'\nroot = '{}'\n[namespaces]\nacme = 'shop'\n", pinned());
    let every = packages / WANTED;
    let wanted = (0..WANTED).map(|number| Ok(format!("{}@^1.3", plugin(number * every)?).parse()?));
    let wanted: Vec<Requirement> = wanted.collect::<Outcome<_>>()?;
    let resolve = async |offline| -> Outcome<f64> {
        let begun = Instant::now();
        let pinned = client(&config, &user, offline)?.resolve(&wanted, None, Unpinned::Resolve).await?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let newest = pinned.iter().all(|entry| entry.version.minor == VERSIONS - 1);
        ensure!(newest && pinned.len() == WANTED, "other versions were resolved");
        Ok(took)
    };
    let cold = resolve(false).await?;
    let mut asked = Vec::new();
    let mut alone = Vec::new();
    for _ in 0..effort.pick(ROUNDS, 1) {
        asked.push(resolve(false).await?);
        alone.push(resolve(true).await?);
    }
    print_in("ms", "resolve-warm", median(alone), "budget", 50.0);
    print_in("ms", "resolve-warm-asking", median(asked), "with nothing in the cache", cold);
    Ok(())
}

async fn downloading(folder: &Path, downloads: usize) -> Outcome<()> {
    let root = root();
    let authority = Authority { root: Some(&root), lifetime: DAY, now: now()? };
    let registry = registry::registry_by(&folder.join("small"), authority);
    let made = Made { padding: COMPONENT, ..Made::version("1.0.0") };
    let component = made.component();
    let row = add_file(&registry, &made.signed(), &component, authority)?;
    let url = format!("http://{}/{}", serve(registry.path()).await?, ContentFile::Component(row.digest).path());
    // Every download opens a new connection.
    let client =
        reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(Duration::from_secs(120)).build()?;
    let begun = Instant::now();
    let fetch = |_| {
        let (client, url, digest) = (client.clone(), url.clone(), row.digest);
        tokio::spawn(async move {
            let bytes = client.get(url).send().await?.error_for_status()?.bytes().await?;
            Ok::<bool, reqwest::Error>(Digest::of(&bytes) == digest)
        })
    };
    let mut errors = 0;
    for running in (0..downloads).map(fetch).collect::<Vec<_>>() {
        errors += usize::from(!matches!(running.await?, Ok(true)));
    }
    print_in(
        "downloads/s",
        "downloads-at-once",
        downloads as f64 / begun.elapsed().as_secs_f64(),
        "errors",
        errors as f64,
    );
    Ok(())
}
