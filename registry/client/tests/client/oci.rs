//! Plugins in a real OCI registry, `docker-registry`, in the layout of `wkg`.

use std::process::Child;

use crate::common::tricks::{Trick, serve};
use crate::common::{Made, User, acme, get, key, name, resolve, said};
use gymkhana_registry::{Digest, Lock, Requirement};
use gymkhana_registry_client::{PublishRequest, RegistryClient, RegistryClientError, Secrets, Unpinned};
use serde_json::{Value, json};

/// A registry process that is killed at the end of the test.
struct Docker {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Docker {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("it has one").port();
        drop(free);
        let config = folder.path().join("config.yml");
        let data = folder.path().join("data");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n",
            data.display()
        );
        std::fs::write(&config, text).expect("written");
        let mut command = gymkhana_tests::server("docker-registry");
        command.arg("serve").arg(&config);
        let process = gymkhana_tests::start_server(command);
        let docker = Self { process, port, _folder: folder };
        for _ in 0..600 {
            if client().get(docker.url("v2/")).send().await.is_ok() {
                return docker;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("`docker-registry` does not answer");
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// A registry for `acme` below `plugins/`.
    fn config(&self, trust: &str) -> String {
        format!("[registries.cloud]\noci = '{}'\n{trust}\n[namespaces]\nacme = 'cloud'\n", self.url("plugins"))
    }

    fn signed(&self, user: &User) -> RegistryClient {
        user.client_of(&self.config(&format!("keys = ['{}']", acme().public())), |_| ())
    }

    fn unsigned(&self, user: &User) -> RegistryClient {
        user.client_of(&self.config("unsigned = true"), |_| ())
    }

    async fn json(&self, path: &str) -> Value {
        let manifest = "application/vnd.oci.image.manifest.v1+json";
        let answer = client().get(self.url(path)).header("accept", manifest).send().await.expect("an answer");
        serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON")
    }

    /// Pushes a blob with plain HTTP requests and returns its digest.
    async fn push_blob(&self, repository: &str, bytes: &[u8]) -> String {
        let digest = format!("{:#}", Digest::of(bytes));
        let begun =
            client().post(self.url(&format!("v2/{repository}/blobs/uploads/"))).send().await.expect("an answer");
        let place = begun.headers()["location"].to_str().expect("text").to_owned();
        let separator = if place.contains('?') { '&' } else { '?' };
        let put = client().put(format!("{place}{separator}digest={digest}")).body(bytes.to_vec());
        assert_eq!(put.send().await.expect("an answer").status().as_u16(), 201);
        digest
    }

    async fn push_manifest(&self, repository: &str, tag: &str, manifest: &Value) {
        let put = client().put(self.url(&format!("v2/{repository}/manifests/{tag}")));
        let put = put.header("content-type", "application/vnd.oci.image.manifest.v1+json").body(manifest.to_string());
        assert_eq!(put.send().await.expect("an answer").status().as_u16(), 201);
    }

    /// Pushes an unsigned component as `wkg oci push` does.
    async fn push_as_wkg(&self, made: &Made, tag: &str) {
        let repository = format!("plugins/{}", made.name);
        let component = made.component();
        let config = json!({ "created": "2026-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2",
            "layerDigests": [format!("{:#}", Digest::of(&component))], "component": { "exports": [], "imports": [] } });
        let config = config.to_string();
        let config_digest = self.push_blob(&repository, config.as_bytes()).await;
        let digest = self.push_blob(&repository, &component).await;
        let manifest = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": { "mediaType": "application/vnd.wasm.config.v0+json", "digest": config_digest, "size": config.len() },
            "layers": [{ "mediaType": "application/wasm", "digest": digest, "size": component.len() }] });
        self.push_manifest(&repository, tag, &manifest).await;
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

async fn publish(
    client: &RegistryClient,
    made: &Made,
    key: gymkhana_registry::SecretKey,
) -> Result<(), RegistryClientError> {
    let component = made.component();
    let publishing = PublishRequest { component: &component, report: Some(made.report()), description: None };
    client.publish(publishing, &Secrets { key: Some(key), ..Secrets::default() }).await.map(|_| ())
}

#[tokio::test]
async fn published_release_has_the_layout_of_wkg() {
    let docker = Docker::start().await;
    let user = User::new();
    let made = Made::version("1.0.0");
    publish(&docker.signed(&user), &made, acme()).await.expect("published");
    publish(&docker.signed(&user), &Made::version("1.1.0"), acme()).await.expect("published");
    // Through plain HTTP.
    let tags = docker.json("v2/plugins/acme/adder/tags/list").await;
    let mut tags: Vec<&str> = tags["tags"].as_array().expect("tags").iter().filter_map(Value::as_str).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["1.0.0", "1.1.0"]);
    let manifest = docker.json("v2/plugins/acme/adder/manifests/1.0.0").await;
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"].as_array().expect("layers").len(), 1);
    let layer = &manifest["layers"][0];
    let digest = format!("{:#}", Digest::of(&made.component()));
    assert_eq!((&layer["mediaType"], &layer["digest"]), (&json!("application/wasm"), &json!(digest)));
    let config = manifest["config"]["digest"].as_str().expect("a digest");
    let config = docker.json(&format!("v2/plugins/acme/adder/blobs/{config}")).await;
    assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
    assert_eq!(config["layerDigests"], json!([digest]));
    assert_eq!(config["component"]["exports"], json!(["gymkhana:plugin/tool@0.2.0"]));
    assert_eq!(config["component"]["imports"], json!(["gymkhana:plugin/log@0.2.0"]));
    // Through our client.
    let reader = User::new();
    assert_eq!(get(&docker.signed(&reader), "acme/adder@~1.0").await.expect("fetched"), made.component());
    let pinned = resolve(&docker.signed(&reader), "acme/adder").await.expect("resolved");
    assert_eq!(pinned.version.to_string(), "1.1.0");
    assert_eq!(docker.signed(&reader).verify(&pinned).await.expect("signed"), Some(acme().public()));
    let error = publish(&docker.signed(&user), &made, acme()).await.expect_err("it is there");
    assert!(said(&error).contains("is already published"), "{}", said(&error));
    let error = resolve(&docker.signed(&reader), "acme/none").await.expect_err("there is none");
    assert!(said(&error).contains("published: none"), "{}", said(&error));
    let error = docker.signed(&reader).mirror("cloud", reader.folder.path()).await.expect_err("no list");
    assert!(said(&error).contains("which cannot list its plugins"), "{}", said(&error));
}

#[tokio::test]
async fn unsigned_component_requires_an_unsigned_registry() {
    let docker = Docker::start().await;
    let made = Made::version("1.0.0");
    docker.push_as_wkg(&made, "1.0.0").await;
    docker.push_as_wkg(&made, "latest").await;
    let user = User::new();
    let error = get(&docker.signed(&user), "acme/adder").await.expect_err("an unsigned release");
    assert!(said(&error).contains("is not signed by one of the registry's `keys`"), "{}", said(&error));
    assert_eq!(user.cached(), Vec::<String>::new());
    assert_eq!(get(&docker.unsigned(&user), "acme/adder").await.expect("fetched"), made.component());
    // A tag that differs from the component's version.
    docker.push_as_wkg(&made, "2.0.0").await;
    let error = get(&docker.unsigned(&user), "acme/adder").await.expect_err("1.0.0 under the tag 2.0.0");
    assert!(said(&error).contains("differs from the release that its publisher signed"), "{}", said(&error));
    // The component is checked before it is cached.
    let stranger = User::new();
    get(&docker.unsigned(&stranger), "acme/adder@^2").await.expect_err("1.0.0 under the tag 2.0.0");
    assert_eq!(stranger.cached(), Vec::<String>::new());
    get(&docker.unsigned(&stranger), "acme/adder@^1").await.expect("1.0.0 under its own");
    assert_eq!(stranger.cached().len(), 1);
    // Provenance of an unsigned source does not extend to a signed one.
    let pinned = resolve(&docker.unsigned(&stranger), "acme/adder@^1").await.expect("resolved");
    let error = docker.signed(&stranger).component(&pinned).await.expect_err("an unsigned release");
    assert!(said(&error).contains("is not signed by one of the registry's `keys`"), "{}", said(&error));
}

#[tokio::test]
async fn moved_tag_and_foreign_key_are_rejected() {
    let docker = Docker::start().await;
    let user = User::new();
    publish(&docker.signed(&user), &Made::version("1.0.0"), acme()).await.expect("published");
    let pinned = resolve(&docker.signed(&user), "acme/adder").await.expect("resolved");
    let lock = Lock::new(vec![pinned.clone()]).expect("a lock");
    // An attacker with the registry's password but without the key moves the tag.
    let other = Made { padding: 9, ..Made::version("1.0.0") };
    docker.push_as_wkg(&other, "1.0.0").await;
    let error = docker.signed(&user).component(&pinned).await.expect_err("moved");
    assert!(said(&error).contains("is not signed by one of"), "{}", said(&error));
    let wanted: Requirement = "adder".parse().expect("a requirement");
    let locked = docker.unsigned(&user).resolve(&[wanted], Some(&lock), Unpinned::Reject).await.expect("locked");
    let error = docker.unsigned(&user).component(&locked[0]).await.expect_err("moved");
    assert!(said(&error).contains("releases are immutable"), "{}", said(&error));
    let strange = user.client_of(&docker.config(&format!("keys = ['{}']", key(9).public())), |_| ());
    publish(&docker.signed(&user), &Made::version("1.1.0"), acme()).await.expect_err("1.0.0 is in the way");
    let error = get(&strange, "acme/adder").await.expect_err("another key");
    assert!(said(&error).contains("is not signed by one of"), "{}", said(&error));
}

#[tokio::test]
async fn version_is_yanked_and_restored() {
    let docker = Docker::start().await;
    let user = User::new();
    for version in ["1.0.0", "1.1.0"] {
        publish(&docker.signed(&user), &Made::version(version), acme()).await.expect("published");
    }
    let version = "1.1.0".parse().expect("a version");
    let newest =
        async || resolve(&docker.signed(&User::new()), "acme/adder").await.expect("resolved").version.to_string();
    let yank = async |yanked| {
        let client = docker.signed(&user);
        client.yank(&name("acme/adder"), &version, yanked, &Secrets::default()).await.expect("done")
    };
    yank(true).await;
    assert_eq!(newest().await, "1.0.0");
    get(&docker.signed(&User::new()), "acme/adder@=1.1.0").await.expect_err("yanked");
    yank(false).await;
    assert_eq!(newest().await, "1.1.0");
}

/// A token is requested only from the registry's origin or a listed origin.
#[tokio::test]
async fn token_endpoint_must_be_listed() {
    let docker = Docker::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("token"), r#"{"token":"secret-token"}"#).expect("written");
    let (authority, heard) = serve(folder.path(), |_| Trick::None).await;
    let guarded = guard(&docker, &format!("http://{authority}/token")).await;
    let config = |more: &str| {
        let key = acme().public();
        format!(
            "[registries.cloud]\noci = 'http://{guarded}/plugins'\nkeys = ['{key}']\ncredentials = 'GYMKHANA_CLOUD'\n{more}\n[namespaces]\nacme = 'cloud'\n"
        )
    };
    publish(&docker.signed(&User::new()), &Made::version("1.0.0"), acme()).await.expect("published");
    let user = User::new();
    let settle = |settings: &mut gymkhana_registry_client::ClientSettings| {
        settings.variable = |name| (name == "GYMKHANA_CLOUD").then(|| "me:password".to_owned());
    };
    let error = get(&user.client_of(&config(""), settle), "acme/adder").await.expect_err("another host");
    assert!(said(&error).contains("which is not the registry"), "{}", said(&error));
    assert!(heard.all().is_empty(), "the password was not sent");
    let named = user.client_of(&config(&format!("also = ['http://{authority}']")), settle);
    get(&named, "acme/adder").await.expect("fetched with a token");
    assert!(heard.all()[0].contains("authorization: Basic bWU6cGFzc3dvcmQ="), "{:?}", heard.all());
}

/// A proxy in front of the registry that requires the token.
async fn guard(docker: &Docker, realm: &str) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has one");
    let (port, realm) = (docker.port, realm.to_owned());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let realm = realm.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 16 << 10];
                let count = stream.read(&mut bytes).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&bytes[..count]).into_owned();
                if !request.contains("authorization: Bearer secret-token") {
                    let challenge = format!("Bearer realm=\"{realm}\",service=\"cloud\",scope=\"repository:x:pull\"");
                    let answer = format!(
                        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: {challenge}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    return stream.write_all(answer.as_bytes()).await.unwrap_or_default();
                }
                let mut behind = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
                let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
                behind.write_all(request.as_bytes()).await.expect("sent");
                let mut answer = Vec::new();
                behind.read_to_end(&mut answer).await.expect("an answer");
                stream.write_all(&answer).await.unwrap_or_default();
            });
        }
    });
    address
}
