//! Publishing to our server and fetching from it, from any static server, from a folder and from a mirror.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::tricks::{Trick, serve};
use common::{
    DAY, Made, Shop, TOKEN, User, acme, by, get, key, name, now, pinned, registry, reqwest_client, resolve, root, said,
    stock, web,
};
use gymkhana_registry::{Authority, Lock, RegistryFolder, Requirement, SecretKey};
use gymkhana_registry_client::{PublishRequest, RegistryClient, RegistryClientError, Secrets, Unpinned};
use gymkhana_registry_server::{PublishTokens, ServerLimits};

thread_local! {
    static VARIABLE: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// A client that shows this token.
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
    let publishing = PublishRequest { component: &component, report: Some(made.report()) };
    Ok(client.publish(publishing, secrets).await?.1.version.to_string())
}

#[tokio::test]
async fn what_is_published_to_the_server_is_fetched_from_it() {
    let shop = Shop::empty();
    let address = shop.serve().await;
    let user = User::new();
    let token = shop.token(&["acme"]);
    let client = publisher(&user, address, &token);
    let made = Made::version("1.0.0");
    assert_eq!(publish(&client, &made, &with(acme())).await.expect("published"), "1.0.0");
    assert_eq!(get(&User::new().client(address), "adder@^1").await.expect("fetched"), made.component());
    // Each refusal, with what the server or the client says about it.
    let again = |client: RegistryClient, made: Made, secrets: Secrets| async move {
        said(&publish(&client, &made, &secrets).await.expect_err("refused"))
    };
    let fresh = || publisher(&User::new(), address, &token);
    assert!(again(fresh(), made.clone(), with(acme())).await.contains("is published already"));
    let other = Made::version("1.0.1");
    assert!(again(fresh(), other.clone(), with(key(9))).await.contains("is no current key of namespace `acme`"));
    assert!(again(fresh(), other.clone(), Secrets::default()).await.contains("takes signed releases alone"));
    let wrong = || publisher(&User::new(), address, "gymkhana_0");
    assert!(again(wrong(), other.clone(), with(acme())).await.contains("show a token of this registry"));
    let elsewhere = shop.token(&["others"]);
    let elsewhere = publisher(&User::new(), address, &elsewhere);
    assert!(again(elsewhere, other.clone(), with(acme())).await.contains("your token is for others"));
    let wider = Made { capabilities: &["http", "log"], ..other.clone() };
    assert!(again(fresh(), wider, with(acme())).await.contains("asks for the capabilities `http`"));
    publish(&fresh(), &other, &with(acme())).await.expect("a patch");
    // Withdrawn, and brought back.
    let version = "1.0.1".parse().expect("a version");
    fresh().yank(&name("acme/adder"), &version, true, &Secrets::default()).await.expect("yanked");
    let newest =
        async |user: &User| resolve(&user.client(address), "adder").await.expect("resolved").version.to_string();
    assert_eq!(newest(&user).await, "1.0.0");
    fresh().yank(&name("acme/adder"), &version, false, &Secrets::default()).await.expect("brought back");
    assert_eq!(newest(&user).await, "1.0.1");
    let error = wrong().yank(&name("acme/adder"), &version, true, &Secrets::default()).await.expect_err("no token");
    assert!(said(&error).contains("show a token"), "{}", said(&error));
}

/// The server applies every rule itself: a client that leaves them out gets no further.
#[tokio::test]
async fn the_server_trusts_no_client() {
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
        (existing.signed(), existing.component(), 409, "is published already"),
        (made.release().sign(Some(&key(9))).expect("JSON"), made.component(), 403, "is no key of namespace"),
        (signed(&without_report), made.component(), 422, "has no report of the conformance suite"),
        (signed(&hasty), made.component(), 422, "lacks the check `fuzz`"),
        (signed(&idle), made.component(), 422, "tells of 0 calls"),
        (signed(&lie), made.component(), 422, "not the one that its publisher signed"),
        (made.signed(), other.component(), 413, "larger than the"),
        (made.signed(), made.component()[1..].to_vec(), 422, "the component's sha256 is"),
        (made.signed().replacen("Adds", "Eats", 1), made.component(), 422, "not signed as it must be"),
        ("{}\n".to_owned(), vec![], 400, "release file is damaged"),
        ("no line end".to_owned(), vec![], 400, "send a release file"),
        ("x".repeat(3 << 20), vec![], 413, "has no end"),
    ] {
        let (found, said) = send(&file, &component).await;
        assert_eq!((found, said.contains(words)), (status, true), "{said}");
    }
    let before = shop.state();
    assert_eq!(shop.rows("acme/adder").len(), 2, "nothing was added");
    assert_eq!(std::fs::read_dir(shop.registry.path().join("incoming")).expect("a folder").count(), 0);
    assert_eq!(send(&made.signed(), &made.component()).await.0, 200);
    assert_eq!(shop.state().checkpoint.sequence, before.checkpoint.sequence + 1);
}

#[tokio::test]
async fn files_have_tags_and_private_ones_are_not_served() {
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
    for path in
        [".private/tokens.json", "components/../.private/tokens.json", ".lock", "incoming/1-1", "", "index/acme"]
    {
        // A client would tidy up the path; this one sends it as it is.
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

/// One wins, whatever the others hold, and all others are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_publishers_of_one_version_one_wins() {
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
            (status, words) => assert!(status == 409 && words.contains("is published already"), "{status} {words}"),
        }
    }
    assert_eq!((won, shop.rows("acme/adder").len()), (1, 1));
    get(&User::new().client(address), "acme/adder").await.expect("whole");
}

/// A thousand at once, each with a connection of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_downloads_at_once_come_whole() {
    let shop = Shop::empty();
    let made = Made { padding: 300_000, ..Made::version("1.0.0") };
    shop.add(&made);
    // They all come from here.
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

/// Python's own server knows nothing of us.
#[tokio::test]
async fn any_static_server_serves_a_registry() {
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
async fn a_folder_and_a_mirror_serve_the_same() {
    let shop = Shop::new();
    let user = User::new();
    let folder = |path: &std::path::Path| {
        let (path, root) = (path.display(), pinned());
        format!("[registries.shop]\nfolder = '{path}'\nroot = '{root}'\n[namespaces]\nacme = 'shop'\n")
    };
    let config = folder(shop.registry.path());
    assert_eq!(get(&user.client_of(&config, |_| ()), "adder").await.expect("fetched"), stock()[1].component());
    // By way of our server into another folder, from there by a static one.
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
    // What is altered on the way is not mirrored.
    let target = shop.component_path("acme/other", "1.0.0");
    let (altering, _) =
        serve(&mirror, move |path| if path == target { Trick::Other(b"x".to_vec()) } else { Trick::None }).await;
    let error = User::new().client(altering).mirror("shop", &shop.path("third")).await.expect_err("altered");
    assert!(said(&error).contains("was altered"), "{}", said(&error));
    assert!(RegistryFolder::open(&shop.path("third")).is_err(), "it shows nothing that is not whole");
}

#[tokio::test]
async fn an_unsigned_folder_is_used_where_the_user_says_so() {
    let user = User::new();
    let folder = user.folder.path().join("mine");
    let unsigned = Authority { root: None, lifetime: DAY, now: now() };
    RegistryFolder::create(&folder, unsigned).expect("a registry");
    let config = "[registries.mine]\nfolder = 'mine'\nunsigned = true\n[namespaces]\nacme = 'mine'\n";
    let client = || user.client_of(config, |_| ());
    publish(&client(), &Made::version("1.0.0"), &Secrets::default()).await.expect("published");
    assert_eq!(get(&client(), "adder").await.expect("fetched"), stock()[0].component());
    let signed = config.replace("unsigned = true", &format!("root = '{}'", pinned()));
    let error = get(&user.client_of(&signed, |_| ()), "adder").await.expect_err("nobody signed it");
    assert!(said(&error).contains("not signed by its root key"), "{}", said(&error));
}

#[tokio::test]
async fn a_signed_folder_takes_releases_from_who_has_its_root_key() {
    let shop = Shop::empty();
    let user = User::new();
    let (path, root_key) = (shop.registry.path().display(), pinned());
    let config = format!("[registries.shop]\nfolder = '{path}'\nroot = '{root_key}'\n[namespaces]\nacme = 'shop'\n");
    let client = || user.client_of(&config, |_| ());
    let error = publish(&client(), &Made::version("1.0.0"), &with(acme())).await.expect_err("no root key");
    assert!(said(&error).contains("give it with --root"), "{}", said(&error));
    let secrets = |root| Secrets { key: Some(acme()), root: Some(root), lifetime: DAY };
    assert!(publish(&client(), &Made::version("1.0.0"), &secrets(key(9))).await.is_err());
    publish(&client(), &Made::version("1.0.0"), &secrets(root())).await.expect("published");
    get(&client(), "adder").await.expect("fetched");
}

#[tokio::test]
async fn locks_hold_and_offline_asks_nobody() {
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
    assert_eq!(resolve(user.client(address), Unpinned::Resolve).await, pinned, "the lock holds");
    assert_eq!(resolve(user.client(address), Unpinned::Reject).await, pinned);
    let error = user.offline(address).components(&pinned).await.expect_err("never fetched");
    assert!(matches!(error, RegistryClientError::Offline { .. }), "{error}");
    user.client(address).components(&pinned).await.expect("fetched");
    let asked = heard.all().len();
    resolve(user.offline(address), Unpinned::Reject).await;
    user.offline(address).components(&pinned).await.expect("kept");
    assert_eq!(heard.all().len(), asked, "nobody was asked");
    assert_eq!(user.client(address).verify(&pinned[0]).await.expect("signed"), Some(acme().public()));
}

#[tokio::test]
async fn short_names_and_searches_find_what_there_is() {
    let shop = Shop::new();
    let root = root();
    shop.registry.grant(&"zeta".parse().expect("a namespace"), key(3).public(), by(&root)).expect("granted");
    let made = Made::of("zeta/adder", "1.0.0");
    let file = made.release().sign(Some(&key(3))).expect("JSON");
    registry::add_file(&shop.registry, &file, &made.component(), by(&root)).expect("added");
    let address = shop.serve().await;
    let user = User::new();
    // What a registry holds of namespaces that it does not serve is nobody's.
    assert_eq!(resolve(&user.client(address), "adder").await.expect("one").name, name("acme/adder"));
    let both = web(address, "") + "zeta = 'shop'\n";
    let error = resolve(&user.client_of(&both, |_| ()), "adder").await.expect_err("two");
    assert!(error.to_string().contains("`acme/adder` or `zeta/adder`"), "{error}");
    let error = resolve(&user.client(address), "addr").await.expect_err("none");
    assert!(error.to_string().contains("did you mean `acme/adder`?"), "{error}");
    let error = resolve(&user.client(address), "acme/addr").await.expect_err("none");
    assert!(error.to_string().contains("did you mean `acme/adder`?"), "{error}");
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
async fn a_revoked_token_counts_no_more_and_a_crash_leaves_nothing_behind() {
    let shop = Shop::empty();
    let token = shop.token(&["acme"]);
    let incoming = shop.registry.path().join("incoming");
    std::fs::create_dir_all(&incoming).expect("created");
    let stale = incoming.join("1-1");
    std::fs::write(&stale, "half of a component").expect("written");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * DAY);
    std::fs::File::options().write(true).open(&stale).expect("a file").set_modified(long_ago).expect("set");
    let address = shop.serve().await;
    assert!(!stale.exists(), "what died on its way in is swept at the start");
    let tokens = PublishTokens::of_registry(shop.registry.path());
    publish(&publisher(&User::new(), address, &token), &Made::version("1.0.0"), &with(acme()))
        .await
        .expect("published");
    tokens.revoke(&tokens.list().expect("tokens")[0].0).expect("revoked");
    let error = publish(&publisher(&User::new(), address, &token), &Made::version("1.0.1"), &with(acme())).await;
    assert!(said(&error.expect_err("revoked")).contains("show a token"));
}

/// Each of these clients could be a process of its own: they share nothing but the folders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_fill_one_cache_at_once() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = User::new();
    let fetch = |_| {
        let client = user.client(address);
        tokio::spawn(async move { get(&client, "adder").await.expect("fetched") })
    };
    for running in (0..16).map(fetch).collect::<Vec<_>>() {
        assert_eq!(running.await.expect("no panic"), stock()[1].component());
    }
    assert_eq!(user.cached().len(), 1);
    assert_eq!(get(&user.offline(address), "adder").await.expect("whole"), stock()[1].component());
}
