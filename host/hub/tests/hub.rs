//! A hub and its storage on loopback: files are downloaded once and verified, and data from a hub cannot lead out of the
//! cache.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gymkhana_hub::{Commit, Hub, HubError, Repository, Revision};
use gymkhana_loopback::{Response, Server, response};
use gymkhana_net::Secret;
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const CONFIG: &str = r#"{"model_type": "qwen2"}"#;
const WEIGHTS: &str = "weights of many layers, one after the other";

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn repository() -> Repository {
    Repository::parse("owner/model").expect("a name")
}

fn commit() -> Commit {
    Commit::parse(COMMIT).expect("a hash")
}

fn revision(name: &str) -> Revision {
    Revision::parse(name).expect("a name")
}

fn hub(server: &Server, cache: &Path) -> Hub {
    Hub::new(&server.url(""), cache.to_owned(), None).expect("a hub").with_retry_policy(2, Duration::from_millis(1))
}

async fn file(hub: &Hub, name: &str) -> Result<Option<PathBuf>, HubError> {
    hub.file(&repository(), &commit(), name, &|_| ()).await
}

/// The headers of a file at the commit.
fn headers(tag: &str) -> String {
    format!("x-repo-commit: {COMMIT}\r\netag: \"{tag}\"\r\n")
}

/// Redirects the request of a file to its storage.
fn stored_at(url: &str, tag: &str, size: usize) -> Response {
    let linked = format!("x-linked-etag: \"{tag}\"\r\nx-linked-size: {size}\r\nlocation: {url}\r\n");
    response("302 Found", &format!("x-repo-commit: {COMMIT}\r\n{linked}"), "")
}

/// A hub with a config, and with weights in the storage.
async fn whole_hub(storage: &Server) -> Server {
    let stored = stored_at(&storage.url("/blob?signed=1"), &sha256(WEIGHTS), WEIGHTS.len());
    Server::responding(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path.strip_prefix("/owner/model/resolve/") {
            Some("main/config.json") => response("200 OK", &headers("c1"), ""),
            Some(path) if path == format!("{COMMIT}/config.json") => response("200 OK", &headers("c1"), CONFIG),
            Some(path) if path == format!("{COMMIT}/model.safetensors") => stored.clone(),
            Some(path) if path.starts_with("none/") => {
                response("404 Not Found", "x-error-code: RevisionNotFound\r\n", "")
            }
            Some(_) => response("404 Not Found", "x-error-code: EntryNotFound\r\n", ""),
            None => response("401 Unauthorized", "x-error-code: RepoNotFound\r\n", ""),
        }
    })
    .await
}

#[tokio::test]
async fn a_model_is_downloaded_once_in_the_layout_of_other_clients() {
    let storage = Server::start(vec![response("200 OK", "", WEIGHTS)]).await;
    let server = whole_hub(&storage).await;
    let cache = tempfile::tempdir().expect("a folder");
    let token = Some(Secret::new("hf_token"));
    let hub = Hub::new(&server.url("/"), cache.path().to_owned(), token).expect("a hub");
    assert_eq!(hub.commit(&repository(), &revision("main")).await.expect("a commit"), commit());
    let folder = cache.path().join("models--owner--model");
    for (name, content, tag) in [("config.json", CONFIG, "c1"), ("model.safetensors", WEIGHTS, &sha256(WEIGHTS))] {
        let path = file(&hub, name).await.expect("it is there").expect("it exists");
        assert_eq!(path, folder.join("snapshots").join(COMMIT).join(name));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), content);
        assert_eq!(std::fs::read_link(&path).expect("a link"), Path::new("../../blobs").join(tag));
    }
    assert_eq!(file(&hub, "merges.txt").await.expect("an answer"), None);
    assert_eq!(std::fs::read_to_string(folder.join("refs/main")).expect("text"), COMMIT);
    assert!(folder.join(".no_exist").join(COMMIT).join("merges.txt").is_file());
    assert!(server.requests().iter().all(|request| request.contains("authorization: Bearer hf_token")));
    assert!(!storage.requests().concat().contains("hf_token"), "the storage does not receive the token");
    // A second access sends no request.
    let asked = server.requests().len();
    for name in ["config.json", "model.safetensors", "merges.txt"] {
        file(&hub, name).await.expect("it is known");
    }
    assert_eq!((server.requests().len(), storage.requests().len()), (asked, 1));
}

#[tokio::test]
async fn the_cache_answers_while_the_hub_is_unreachable() {
    let storage = Server::start(vec![response("200 OK", "", WEIGHTS)]).await;
    let cache = tempfile::tempdir().expect("a folder");
    let server = whole_hub(&storage).await;
    let hub_there = hub(&server, cache.path());
    hub_there.commit(&repository(), &revision("main")).await.expect("a commit");
    file(&hub_there, "config.json").await.expect("it is there");
    let broken = Server::start(vec![response("503 Service Unavailable", "", "")]).await;
    let hub_gone = hub(&broken, cache.path());
    assert_eq!(hub_gone.commit(&repository(), &revision("main")).await.expect("as it was"), commit());
    assert!(file(&hub_gone, "config.json").await.expect("it is kept").is_some());
    let error = hub_gone.commit(&repository(), &revision("other")).await.expect_err("it was never asked for");
    assert!(error.to_string().contains("503"), "{error}");
    let error = file(&hub_gone, "model.safetensors").await.expect_err("it was never fetched").to_string();
    assert!(error.contains("`model.safetensors` of model `owner/model`") && error.contains("503"), "{error}");
    // A full commit hash needs no hub.
    assert_eq!(hub_gone.commit(&repository(), &revision(COMMIT)).await.expect("itself"), commit());
}

#[tokio::test]
async fn an_interrupted_download_is_resumed() {
    let (first, rest) = WEIGHTS.split_at(17);
    let broken = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{first}", WEIGHTS.len()).into_bytes();
    let range = format!("content-range: bytes 17-{}/{}\r\n", WEIGHTS.len() - 1, WEIGHTS.len());
    let answers = vec![Response::Bytes(broken), response("206 Partial Content", &range, rest)];
    let storage = Server::start(answers).await;
    let server = whole_hub(&storage).await;
    let cache = tempfile::tempdir().expect("a folder");
    let path = file(&hub(&server, cache.path()), "model.safetensors").await.expect("it is there").expect("it exists");
    assert_eq!(std::fs::read_to_string(path).expect("text"), WEIGHTS);
    assert!(storage.requests()[1].contains("range: bytes=17-"), "{:?}", storage.requests());
}

#[tokio::test]
async fn a_storage_without_ranges_restarts_the_download() {
    let broken = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\nweights", WEIGHTS.len()).into_bytes();
    let storage = Server::start(vec![Response::Bytes(broken), response("200 OK", "", WEIGHTS)]).await;
    let server = whole_hub(&storage).await;
    let cache = tempfile::tempdir().expect("a folder");
    let path = file(&hub(&server, cache.path()), "model.safetensors").await.expect("it is there").expect("it exists");
    assert_eq!(std::fs::read_to_string(path).expect("text"), WEIGHTS);
}

/// A file that differs from the hub's description is rejected and gets no name in the cache.
#[tokio::test]
async fn a_damaged_file_gets_no_name() {
    let (short, long) = (&WEIGHTS[..20], format!("{WEIGHTS} and more"));
    let other: String = WEIGHTS.chars().rev().collect();
    let unsaid = |body: &str| Response::Bytes(format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes());
    for (says, words) in [
        (unsaid(short), "ended early after 20 bytes"),
        (unsaid(&long), "the hub declares 43"),
        (response("200 OK", "", &other), "its sha256 is"),
        (response("403 Forbidden", "", ""), "its storage answered 403"),
        (response("302 Found", "location: /again\r\n", ""), "redirects more than 5 times"),
    ] {
        let storage = Server::start(vec![says]).await;
        let server = whole_hub(&storage).await;
        let cache = tempfile::tempdir().expect("a folder");
        let error = file(&hub(&server, cache.path()), "model.safetensors").await.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        let folder = cache.path().join("models--owner--model");
        assert!(!folder.join("snapshots").exists(), "{words}");
        assert!(!folder.join("blobs").join(sha256(WEIGHTS)).exists(), "{words}");
    }
}

#[tokio::test]
async fn files_that_declare_too_large_a_size_are_refused() {
    for (name, most) in [("model.safetensors", 64_usize << 30), ("config.json", 256 << 20)] {
        let storage = Server::start(vec![response("200 OK", "", WEIGHTS)]).await;
        let server = Server::start(vec![stored_at(&storage.url("/blob"), "c1", most + 1)]).await;
        let cache = tempfile::tempdir().expect("a folder");
        let error = file(&hub(&server, cache.path()), name).await.expect_err(name).to_string();
        assert!(error.contains(&format!("it has {} bytes, more than {most}", most + 1)), "{error}");
        assert!(storage.requests().is_empty(), "nothing was downloaded");
    }
}

#[tokio::test]
async fn data_from_a_hub_cannot_lead_out_of_the_cache() {
    let of = |commit: &str, tag: &str| format!("x-repo-commit: {commit}\r\netag: \"{tag}\"\r\n");
    let other = "f".repeat(40);
    for (headers, words) in [
        (of(COMMIT, "../../../evil"), "its tag is missing or not a valid file name"),
        (of(COMMIT, ""), "its tag is missing or not a valid file name"),
        (of("../../../evil", "c1"), "an unknown commit"),
        (of(&other, "c1"), "instead of 0123"),
        ("etag: \"c1\"\r\n".to_owned(), "an unknown commit"),
    ] {
        let root = tempfile::tempdir().expect("a folder");
        let cache = root.path().join("cache/deep");
        let server = Server::start(vec![response("200 OK", &headers, CONFIG)]).await;
        let error = file(&hub(&server, &cache), "config.json").await.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        assert!(!root.path().join("evil").exists() && !root.path().join("cache/evil").exists());
    }
    let server = Server::start(vec![response("200 OK", &headers("c1"), CONFIG)]).await;
    let cache = tempfile::tempdir().expect("a folder");
    for name in ["../config.json", "/etc/passwd", "a/b", "..", ""] {
        let error = file(&hub(&server, cache.path()), name).await.expect_err(name).to_string();
        assert!(error.contains("which is not a plain file name"), "{error}");
    }
    assert!(server.requests().is_empty(), "no request was sent");
    let error = hub(&Server::start(vec![response("200 OK", "", "<html>")]).await, cache.path())
        .commit(&repository(), &revision("main"))
        .await
        .expect_err("a page");
    assert!(error.to_string().contains("it is not a hub of models"), "{error}");
}

#[tokio::test]
async fn refusals_have_hints() {
    let storage = Server::start(vec![response("200 OK", "", WEIGHTS)]).await;
    let server = whole_hub(&storage).await;
    let cache = tempfile::tempdir().expect("a folder");
    let hub = hub(&server, cache.path());
    let error = hub.commit(&repository(), &revision("none")).await.expect_err("there is none").to_string();
    assert!(error.contains("model `owner/model` has no revision `none`"), "{error}");
    let error = hub.commit(&Repository::parse("owner/secret").expect("a name"), &revision("main")).await;
    let error = error.expect_err("it is not shown").to_string();
    assert!(error.contains("`owner/secret`") && error.contains("401") && error.contains("HF_TOKEN"), "{error}");
    for (endpoint, token, words) in [
        ("huggingface.co", None, "HF_ENDPOINT is `huggingface.co`"),
        ("ftp://hub", None, "HF_ENDPOINT is `ftp://hub`"),
        ("http://hub.example", Some("t"), "would be sent unencrypted"),
    ] {
        let error = Hub::new(endpoint, PathBuf::new(), token.map(Secret::new)).err().expect(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    for (endpoint, token) in [("http://hub.example", None), ("https://hub.example", Some("t"))] {
        assert!(Hub::new(endpoint, PathBuf::new(), token.map(Secret::new)).is_ok(), "{endpoint}");
    }
}

#[tokio::test]
async fn transient_faults_are_retried() {
    let tried = AtomicUsize::new(0);
    let server = Server::responding(move |_| match tried.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => response("500 Internal Server Error", "", ""),
        // A renamed model has another path on the same hub.
        2 => response("307 Temporary Redirect", "location: /owner/renamed/config.json\r\n", ""),
        _ => response("200 OK", &headers("c1"), CONFIG),
    })
    .await;
    let cache = tempfile::tempdir().expect("a folder");
    let path = file(&hub(&server, cache.path()), "config.json").await.expect("it is there").expect("it exists");
    assert_eq!(std::fs::read_to_string(path).expect("text"), CONFIG);
    assert!(server.requests()[3].starts_with("GET /owner/renamed/config.json "));
}

#[tokio::test]
async fn concurrent_downloads_of_a_file_both_succeed() {
    let storage = Server::start(vec![response("200 OK", "", WEIGHTS)]).await;
    let server = whole_hub(&storage).await;
    let cache = tempfile::tempdir().expect("a folder");
    let [one, other] = [hub(&server, cache.path()), hub(&server, cache.path())];
    let (one, other) = tokio::join!(file(&one, "model.safetensors"), file(&other, "model.safetensors"));
    for path in [one, other] {
        let path = path.expect("it is there").expect("it exists");
        assert_eq!(std::fs::read_to_string(path).expect("text"), WEIGHTS);
    }
}
