//! Publishing to the registry server, and fetching from it, static servers, folders and mirrors.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::tricks::{Trick, serve};
use crate::common::{
    DAY, Made, Shop, TOKEN, User, acme, by, get, key, name, now, pinned, registry, reqwest_client, resolve, root, said,
    stock, web,
};
use gymkhana_registry::{
    Authority, CheckpointError, FolderError, FolderReadError, Lock, RegistryFolder, Requirement, SecretKey,
};
use gymkhana_registry_client::{
    ClientSettings, PublishRequest, RegistryClient, RegistryClientError, Secrets, TransferLimits, Unpinned,
};
use gymkhana_registry_server::{PublishTokens, ServerLimits};

thread_local! {
    static VARIABLE: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// A client with this publishing token.
fn publisher(user: &User, address: std::net::SocketAddr, token: &str) -> RegistryClient {
    VARIABLE.with_borrow_mut(|variable| token.clone_into(variable));
    user.client_of(&web(address, &format!("token = '{TOKEN}'")), |settings| {
        settings.variable = |name| (name == TOKEN).then(|| VARIABLE.with_borrow(Clone::clone));
    })
}

fn with(key: SecretKey) -> Secrets {
    Secrets { key: Some(key), ..Secrets::default() }
}

async fn publish(client: &RegistryClient, made: &Made, secrets: &Secrets) -> Result<String, RegistryClientError> {
    let component = made.component();
    let publishing = PublishRequest { component: &component, report: Some(made.report()), description: None };
    Ok(client.publish(publishing, secrets).await?.1.version.to_string())
}

/// As `host publish` does, which runs the conformance suite in between: meanwhile the server closes the connection of the
/// check, and nothing drives the client's runtime.
#[test]
fn a_release_is_published_after_a_long_pause() {
    let (server, shop) = (tokio::runtime::Runtime::new().expect("a runtime"), Shop::empty());
    let limits = ServerLimits { header_timeout: std::time::Duration::from_millis(100), ..ServerLimits::default() };
    let address = server.block_on(shop.serve_within(limits));
    let (user, made) = (User::new(), Made { padding: 4 << 20, ..Made::version("1.0.0") });
    let client = publisher(&user, address, &shop.token(&["acme"]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(client.check_before_suite(&made.component(), &with(acme()))).expect("it can be published");
    std::thread::sleep(std::time::Duration::from_millis(600));
    runtime.block_on(publish(&client, &made, &with(acme()))).expect("published");
}

#[tokio::test]
async fn published_release_is_fetched() {
    let shop = Shop::empty();
    let address = shop.serve().await;
    let user = User::new();
    let token = shop.token(&["acme"]);
    let client = publisher(&user, address, &token);
    let made = Made::version("1.0.0");
    assert_eq!(publish(&client, &made, &with(acme())).await.expect("published"), "1.0.0");
    assert_eq!(get(&User::new().client(address), "adder@^1").await.expect("fetched"), made.component());
    // Rejections by the client and the server.
    let again = |client: RegistryClient, made: Made, secrets: Secrets| async move {
        said(&publish(&client, &made, &secrets).await.expect_err("refused"))
    };
    let fresh = || publisher(&User::new(), address, &token);
    assert!(again(fresh(), made.clone(), with(acme())).await.contains("is already published"));
    let other = Made::version("1.0.1");
    assert!(again(fresh(), other.clone(), with(key(9))).await.contains("is not a current key of namespace `acme`"));
    assert!(again(fresh(), other.clone(), Secrets::default()).await.contains("accepts signed releases only"));
    let wrong = || publisher(&User::new(), address, "gymkhana_0");
    assert!(again(wrong(), other.clone(), with(acme())).await.contains("a valid token of this registry is required"));
    let elsewhere = shop.token(&["others"]);
    let elsewhere = publisher(&User::new(), address, &elsewhere);
    assert!(
        again(elsewhere, other.clone(), with(acme()))
            .await
            .contains("the token is valid for namespace others, not for `acme/adder`")
    );
    let wider = Made { capabilities: &["http", "log"], ..other.clone() };
    assert!(again(fresh(), wider, with(acme())).await.contains("requests the capabilities `http`"));
    publish(&fresh(), &other, &with(acme())).await.expect("a patch");
    // Yanked and restored.
    let version = "1.0.1".parse().expect("a version");
    fresh().yank(&name("acme/adder"), &version, true, &Secrets::default()).await.expect("yanked");
    let newest =
        async |user: &User| resolve(&user.client(address), "adder").await.expect("resolved").version.to_string();
    assert_eq!(newest(&user).await, "1.0.0");
    fresh().yank(&name("acme/adder"), &version, false, &Secrets::default()).await.expect("restored");
    assert_eq!(newest(&user).await, "1.0.1");
    let error = wrong().yank(&name("acme/adder"), &version, true, &Secrets::default()).await.expect_err("no token");
    assert!(said(&error).contains("a valid token of this registry is required"), "{}", said(&error));
}

/// The server applies every rule itself.
#[tokio::test]
async fn server_applies_all_rules() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let token = shop.token(&["acme"]);
    let client = reqwest_client();
    let send = async |file: &str, component: &[u8]| {
        let body = [file.as_bytes(), b"\n", component].concat();
        let request = client.put(format!("http://{address}/publish")).bearer_auth(&token).body(body);
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("words"))
    };
    let made = Made::version("1.2.0");
    let signed = |release: &gymkhana_registry::Release| release.sign(Some(&acme())).expect("JSON");
    let mut without_report = made.release();
    without_report.report = None;
    let mut hasty = made.release();
    hasty.report.as_mut().expect("a report").checks.retain(|check| check.name != "fuzz");
    let mut idle = made.release();
    idle.report.as_mut().expect("a report").steps = 0;
    let mut lie = made.release();
    lie.manifest.capabilities.clear();
    let other = Made { padding: 3, ..made.clone() };
    let existing = &stock()[1];
    for (file, component, status, words) in [
        (existing.signed(), existing.component(), 409, "is already published"),
        (made.release().sign(Some(&key(9))).expect("JSON"), made.component(), 403, "is not a key of namespace"),
        (signed(&without_report), made.component(), 422, "has no conformance report"),
        (signed(&hasty), made.component(), 422, "lacks the check `fuzz`"),
        (signed(&idle), made.component(), 422, "records 0 calls"),
        (signed(&lie), made.component(), 422, "differs from the signed manifest"),
        (made.signed(), other.component(), 413, "larger than the"),
        (made.signed(), made.component()[1..].to_vec(), 422, "the component has sha256"),
        (made.signed().replacen("Adds", "Eats", 1), made.component(), 422, "the release signature was rejected"),
        ("{}\n".to_owned(), vec![], 400, "the release file is damaged"),
        ("no line end".to_owned(), vec![], 400, "the request is truncated"),
        ("x".repeat(3 << 20), vec![], 413, "the release file is larger than"),
    ] {
        let (found, said) = send(&file, &component).await;
        assert_eq!((found, said.contains(words)), (status, true), "{said}");
    }
    // Body limit of the route.
    let large = client.put(format!("http://{address}/yank")).bearer_auth(&token).body("x".repeat(5000));
    assert_eq!(large.send().await.expect("an answer").status().as_u16(), 413);
    let before = shop.state();
    assert_eq!(shop.rows("acme/adder").len(), 2, "nothing was added");
    assert_eq!(std::fs::read_dir(shop.registry.path().join("incoming")).expect("a folder").count(), 0);
    assert_eq!(send(&made.signed(), &made.component()).await.0, 200);
    assert_eq!(shop.state().checkpoint.sequence, before.checkpoint.sequence + 1);
}

#[tokio::test]
async fn files_have_etags_and_private_files_are_hidden() {
    let shop = Shop::new();
    let address = shop.serve().await;
    shop.token(&["acme"]);
    let client = reqwest_client();
    let component = shop.component_path("acme/adder", "1.0.0");
    for path in ["checkpoint.json", &component] {
        let url = format!("http://{address}/{path}");
        let first = client.get(&url).send().await.expect("an answer");
        let tag = first.headers()["etag"].to_str().expect("text").to_owned();
        assert!(first.bytes().await.expect("bytes").len() > 100);
        let second = client.get(&url).header("if-none-match", &tag).send().await.expect("an answer");
        assert_eq!(second.status().as_u16(), 304);
        let other = client.get(&url).header("if-none-match", "\"other\"").send().await.expect("an answer");
        assert_eq!(other.status().as_u16(), 200);
        let head = client.head(&url).send().await.expect("an answer");
        assert!(head.headers()["content-length"].to_str().expect("text").parse::<u64>().expect("a number") > 100);
    }
    for path in [".private/tokens.json", "components/../.private/tokens.json", ".lock", "incoming/1-1", "index/acme"] {
        // An HTTP client would normalize the path.
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        let request = format!("GET /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    assert_eq!(
        client.post(format!("http://{address}/checkpoint.json")).send().await.expect("an answer").status().as_u16(),
        405
    );
}

/// One publisher wins, and all others receive an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_concurrent_publishers_wins() {
    let shop = Shop::empty();
    let address = shop.serve().await;
    let token = shop.token(&["acme"]);
    let publish = |padding| {
        let (client, token) = (reqwest_client(), token.clone());
        tokio::spawn(async move {
            let made = Made { padding, ..Made::version("1.0.0") };
            let body = [made.signed().as_bytes(), b"\n", &made.component()].concat();
            let request = client.put(format!("http://{address}/publish")).bearer_auth(token).body(body);
            let response = request.send().await.expect("an answer");
            (response.status().as_u16(), response.text().await.expect("words"))
        })
    };
    let mut won = 0;
    for running in (0..8).map(publish).collect::<Vec<_>>() {
        match running.await.expect("no panic") {
            (200, _) => won += 1,
            (status, words) => assert!(status == 409 && words.contains("is already published"), "{status} {words}"),
        }
    }
    assert_eq!((won, shop.rows("acme/adder").len()), (1, 1));
    get(&User::new().client(address), "acme/adder").await.expect("whole");
}

/// A thousand concurrent downloads, each on its own connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_concurrent_downloads_are_complete() {
    let shop = Shop::empty();
    let made = Made { padding: 300_000, ..Made::version("1.0.0") };
    shop.add(&made);
    // All connections come from one address.
    let limits = ServerLimits { max_connections_per_network: 2000, ..ServerLimits::default() };
    let address = shop.serve_within(limits).await;
    let url = format!("http://{address}/{}", shop.component_path("acme/adder", "1.0.0"));
    let component = made.component();
    let client = reqwest_client();
    let fetch = |_| {
        let (url, component, client) = (url.clone(), component.clone(), client.clone());
        tokio::spawn(async move {
            let response = client.get(url).send().await.expect("an answer");
            assert_eq!(response.status().as_u16(), 200);
            assert!(response.bytes().await.expect("a body") == component.as_slice());
        })
    };
    for running in (0..1000).map(fetch).collect::<Vec<_>>() {
        running.await.expect("whole");
    }
}

/// Python's standard HTTP server.
#[tokio::test]
async fn static_server_serves_a_registry() {
    let shop = Shop::new();
    let mut command = Command::new("python3");
    command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(shop.registry.path());
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("python3");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let port: u16 = line.split("port ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a port");
    let user = User::new();
    let address = ([127, 0, 0, 1], port).into();
    let fetched = get(&user.client(address), "adder@^1").await;
    let again = resolve(&user.client(address), "adder@^1").await;
    server.kill().expect("it ends");
    server.wait().expect("it has ended");
    assert_eq!(fetched.expect("fetched"), stock()[1].component());
    assert_eq!(again.expect("resolved").version.to_string(), "1.1.0");
}

#[tokio::test]
async fn folder_and_mirror_serve_the_same() {
    let shop = Shop::new();
    let user = User::new();
    let folder = |path: &std::path::Path| {
        let (path, root) = (path.display(), pinned());
        format!("[registries.shop]\nfolder = '{path}'\nroot = '{root}'\n[namespaces]\nacme = 'shop'\n")
    };
    let config = folder(shop.registry.path());
    assert_eq!(get(&user.client_of(&config, |_| ()), "adder").await.expect("fetched"), stock()[1].component());
    // From the registry server into a mirror folder, from there through a static server.
    let address = shop.serve().await;
    let mirror = shop.path("mirror");
    let first = user.client(address).mirror("shop", &mirror).await.expect("mirrored");
    assert_eq!((first.plugins, first.versions, first.fetched), (2, 3, 3));
    let config = folder(&mirror);
    assert_eq!(get(&User::new().client_of(&config, |_| ()), "adder").await.expect("fetched"), stock()[1].component());
    shop.add(&Made::version("1.2.0"));
    let second = user.client(address).mirror("shop", &mirror).await.expect("mirrored");
    assert_eq!((second.versions, second.fetched, second.sequence), (4, 1, first.sequence + 1));
    let (static_address, _) = serve(&mirror, |_| Trick::None).await;
    get(&User::new().client(static_address), "adder@=1.2.0").await.expect("fetched");
    // Files modified in transit are not mirrored.
    let target = shop.component_path("acme/other", "1.0.0");
    let (altering, _) =
        serve(&mirror, move |path| if path == target { Trick::Other(b"x".to_vec()) } else { Trick::None }).await;
    let error = User::new().client(altering).mirror("shop", &shop.path("third")).await.expect_err("altered");
    assert!(said(&error).contains("was modified"), "{}", said(&error));
    let third = shop.path("third");
    let incomplete = RegistryFolder::open(&third).expect_err("an incomplete mirror has no checkpoint");
    assert!(matches!(&incomplete, FolderReadError::NotARegistry(path) if *path == third), "{incomplete}");
}

#[tokio::test]
async fn unsigned_folder_requires_unsigned_setting() {
    let user = User::new();
    let folder = user.folder.path().join("mine");
    let unsigned = Authority { root: None, lifetime: DAY, now: now() };
    RegistryFolder::create(&folder, unsigned).expect("a registry");
    let config = "[registries.mine]\nfolder = 'mine'\nunsigned = true\n[namespaces]\nacme = 'mine'\n";
    let client = || user.client_of(config, |_| ());
    publish(&client(), &Made::version("1.0.0"), &Secrets::default()).await.expect("published");
    assert_eq!(get(&client(), "adder").await.expect("fetched"), stock()[0].component());
    let signed = config.replace("unsigned = true", &format!("root = '{}'", pinned()));
    let error = get(&user.client_of(&signed, |_| ()), "adder").await.expect_err("an unsigned registry");
    assert!(said(&error).contains("is not signed by the root key"), "{}", said(&error));
}

#[tokio::test]
async fn signed_folder_requires_its_root_key() {
    let shop = Shop::empty();
    let user = User::new();
    let (path, root_key) = (shop.registry.path().display(), pinned());
    let config = format!("[registries.shop]\nfolder = '{path}'\nroot = '{root_key}'\n[namespaces]\nacme = 'shop'\n");
    let client = || user.client_of(&config, |_| ());
    let error = publish(&client(), &Made::version("1.0.0"), &with(acme())).await.expect_err("no root key");
    assert!(said(&error).contains("pass the key with --root"), "{}", said(&error));
    let secrets = |root| Secrets { key: Some(acme()), root: Some(root), lifetime: DAY };
    let error = publish(&client(), &Made::version("1.0.0"), &secrets(key(9))).await.expect_err("another root key");
    let RegistryClientError::RejectedByFolder { source, .. } = error else { panic!("{error}") };
    let FolderError::Read(FolderReadError::Checkpoint { source, .. }) = *source else { panic!("{source}") };
    assert!(matches!(source, CheckpointError::UnknownRoot { known } if known == key(9).public()), "{source}");
    publish(&client(), &Made::version("1.0.0"), &secrets(root())).await.expect("published");
    get(&client(), "adder").await.expect("fetched");
}

#[tokio::test]
async fn lock_is_respected_and_offline_uses_no_network() {
    let shop = Shop::new();
    let (address, heard) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = User::new();
    let wanted: Requirement = "adder@^1".parse().expect("a requirement");
    let wanted = std::slice::from_ref(&wanted);
    let error = user.offline(address).resolve(wanted, None, Unpinned::Resolve).await.expect_err("nothing is known");
    assert!(matches!(error, RegistryClientError::Offline { .. }), "{error}");
    let error = user.client(address).resolve(wanted, None, Unpinned::Reject).await.expect_err("not locked");
    assert!(matches!(error, RegistryClientError::NotLocked { .. }), "{error}");
    assert!(heard.all().is_empty());
    let pinned = user.client(address).resolve(wanted, None, Unpinned::Resolve).await.expect("resolved");
    let lock = Lock::new(pinned.clone()).expect("a lock");
    shop.add(&Made::version("1.2.0"));
    let resolve = |client: RegistryClient, unlocked| {
        let lock = lock.clone();
        async move { client.resolve(wanted, Some(&lock), unlocked).await.expect("locked") }
    };
    assert_eq!(resolve(user.client(address), Unpinned::Resolve).await, pinned, "the locked version");
    assert_eq!(resolve(user.client(address), Unpinned::Reject).await, pinned);
    let error = user.offline(address).components(&pinned).await.expect_err("never fetched");
    assert!(matches!(error, RegistryClientError::Offline { .. }), "{error}");
    user.client(address).components(&pinned).await.expect("fetched");
    let asked = heard.all().len();
    resolve(user.offline(address), Unpinned::Reject).await;
    user.offline(address).components(&pinned).await.expect("kept");
    assert_eq!(heard.all().len(), asked, "no request was sent");
    assert_eq!(user.client(address).verify(&pinned[0]).await.expect("signed"), Some(acme().public()));
}

#[tokio::test]
async fn short_names_and_searches_find_plugins() {
    let shop = Shop::new();
    let root = root();
    shop.registry.grant(&"zeta".parse().expect("a namespace"), key(3).public(), by(&root)).expect("granted");
    let made = Made::of("zeta/adder", "1.0.0");
    let file = made.release().sign(Some(&key(3))).expect("JSON");
    registry::add_file(&shop.registry, &file, &made.component(), by(&root)).expect("added");
    let address = shop.serve().await;
    let user = User::new();
    // Entries of namespaces that the registry does not serve are ignored.
    assert_eq!(resolve(&user.client(address), "adder").await.expect("one").name, name("acme/adder"));
    let both = web(address, "") + "zeta = 'shop'\n";
    let error = resolve(&user.client_of(&both, |_| ()), "adder").await.expect_err("two");
    assert!(error.to_string().contains("`acme/adder` or `zeta/adder`"), "{error}");
    let error = resolve(&user.client(address), "addr").await.expect_err("none");
    assert!(error.to_string().contains("hint: a similar name is `acme/adder`"), "{error}");
    let error = resolve(&user.client(address), "acme/addr").await.expect_err("none");
    assert!(error.to_string().contains("hint: a similar name is `acme/adder`"), "{error}");
    let search = async |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let found = user.client(address).search(&words).await.expect("searched");
        found.iter().map(|found| format!("{} {}", found.row.name, found.row.version)).collect::<Vec<_>>()
    };
    assert_eq!(search(&["adds", "tool"]).await, ["acme/adder 1.1.0", "acme/other 1.0.0"]);
    assert_eq!(search(&["OTHER"]).await, ["acme/other 1.0.0"]);
    assert_eq!(search(&["subtracts"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn revoked_token_is_rejected_and_stale_files_are_deleted() {
    let shop = Shop::empty();
    let token = shop.token(&["acme"]);
    let incoming = shop.registry.path().join("incoming");
    std::fs::create_dir_all(&incoming).expect("created");
    let stale = incoming.join("1-1");
    std::fs::write(&stale, "half of a component").expect("written");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * DAY);
    std::fs::File::options().write(true).open(&stale).expect("a file").set_modified(long_ago).expect("set");
    let address = shop.serve().await;
    assert!(!stale.exists(), "stale files are deleted at the start");
    let tokens = PublishTokens::of_registry(shop.registry.path());
    publish(&publisher(&User::new(), address, &token), &Made::version("1.0.0"), &with(acme()))
        .await
        .expect("published");
    tokens.revoke(&tokens.list().expect("tokens")[0].0).expect("revoked");
    let error = publish(&publisher(&User::new(), address, &token), &Made::version("1.0.1"), &with(acme())).await;
    assert!(said(&error.expect_err("revoked")).contains("a valid token of this registry is required"));
}

/// The clients share only their folders, as separate processes do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_clients_share_a_cache() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = User::new();
    let fetch = |_| {
        // Sixteen on a busy machine may be slower than the other tests allow.
        let patient = |settings: &mut ClientSettings| settings.limits = TransferLimits::default();
        let client = user.client_of(&web(address, ""), patient);
        tokio::spawn(async move { get(&client, "adder").await.expect("fetched") })
    };
    for running in (0..16).map(fetch).collect::<Vec<_>>() {
        assert_eq!(running.await.expect("no panic"), stock()[1].component());
    }
    assert_eq!(user.cached().len(), 1);
    assert_eq!(get(&user.offline(address), "adder").await.expect("whole"), stock()[1].component());
}
