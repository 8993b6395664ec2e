//! Hubs, storages and other processes that stop: they are named with the duration, and what was downloaded stays.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gymkhana_hub::{Commit, Hub, HubError, Repository};
use gymkhana_loopback::{Response, Server, response};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TAG: &str = "t1";
/// Size that the hub declares.
const SIZE: usize = 1 << 20;
const STALL: Duration = Duration::from_millis(500);

fn hub(server: &Server, cache: &Path) -> Hub {
    let hub = Hub::new(&server.url(""), cache.to_owned(), None).expect("a hub");
    hub.with_retry_policy(1, Duration::from_millis(1)).with_stall_limit(STALL)
}

async fn weights(hub: &Hub, progress: &(dyn Fn(u64) + Sync)) -> Result<(), HubError> {
    let (repository, commit) = (Repository::parse("owner/model"), Commit::parse(COMMIT));
    let (repository, commit) = (repository.expect("a name"), commit.expect("a hash"));
    hub.file(&repository, &commit, "model.safetensors", &|seen| progress(seen.done)).await.map(drop)
}

/// A hub whose file is in this storage.
async fn hub_of(storage: &Server) -> Server {
    let linked = format!("x-linked-etag: \"{TAG}\"\r\nx-linked-size: {SIZE}\r\nlocation: {}\r\n", storage.url("/blob"));
    Server::start(vec![response("302 Found", &format!("x-repo-commit: {COMMIT}\r\n{linked}"), "")]).await
}

/// The file of the download in the cache.
fn partial(cache: &Path) -> std::path::PathBuf {
    cache.join(format!("models--owner--model/blobs/{TAG}.incomplete"))
}

#[tokio::test]
async fn a_silent_hub_is_named_with_the_duration() {
    let (server, cache) = (Server::start(vec![Response::Silence]).await, tempfile::tempdir().expect("a folder"));
    let began = Instant::now();
    let error = weights(&hub(&server, cache.path()), &|_| ()).await.expect_err("silent").to_string();
    assert!(error.ends_with(": the hub did not answer for 0.5 s"), "{error}");
    assert!(error.contains("`model.safetensors` of model `owner/model`"), "{error}");
    assert!((2 * STALL..20 * STALL).contains(&began.elapsed()), "{:?}", began.elapsed());
}

/// A letter every 20 ms keeps every wait for bytes short.
#[tokio::test]
async fn a_trickling_storage_is_given_up_and_resumed() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n").into_bytes();
    let trickling = Response::Trickle(head, Duration::from_millis(20));
    let storage = Server::start(vec![trickling]).await;
    let (server, cache) = (hub_of(&storage).await, tempfile::tempdir().expect("a folder"));
    let began = Instant::now();
    let error = weights(&hub(&server, cache.path()), &|_| ()).await.expect_err("too slow").to_string();
    assert!(error.contains("the hub sent ") && error.contains(" bytes in 0.5 s"), "{error}");
    assert!(began.elapsed() < 20 * STALL, "{:?}", began.elapsed());
    let requests = storage.requests();
    assert!(requests.len() == 2 && requests[1].contains("range: bytes="), "{requests:?}");
    assert!(partial(cache.path()).is_file(), "what came stays for the next attempt");
}

/// Another process that holds the file of the download, and may be stopped.
struct Holder(Child);

impl Holder {
    /// Starts a process that appends to the file for as long as `grows` says, and then holds it alone.
    fn start(file: &Path, grows: Duration) -> Self {
        let steps = grows.as_millis() / 100;
        let script = format!(
            "exec 9>>\"$1\"; flock 9; echo locked > \"$1.locked\"; \
             for step in $(seq {steps}); do echo more >&9; sleep 0.1; done; kill -s STOP $$"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script, "holder"]).arg(file).stdout(Stdio::null());
        let holder = Self(command.spawn().expect("a shell"));
        let since = Instant::now();
        while !Path::new(&format!("{}.locked", file.display())).exists() {
            assert!(since.elapsed() < Duration::from_secs(20), "the file is not locked");
            std::thread::sleep(Duration::from_millis(10));
        }
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[tokio::test]
async fn a_stopped_process_that_downloads_the_same_file_is_named() {
    let storage = Server::start(vec![response("200 OK", "", "")]).await;
    let (server, cache) = (hub_of(&storage).await, tempfile::tempdir().expect("a folder"));
    let file = partial(cache.path());
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    File::create(&file).expect("a file");
    let holder = Holder::start(&file, Duration::from_secs(3));
    let seen = std::sync::Mutex::new(vec![]);
    let hub = hub(&server, cache.path()).with_stall_limit(Duration::from_millis(100));
    let began = Instant::now();
    let error = weights(&hub, &|done| seen.lock().expect("sound").push(done)).await.expect_err("held").to_string();
    assert!(error.contains("`model.safetensors` of model `owner/model`"), "{error}");
    let named = format!("the process that holds the lock of `{}` did not answer for 1 s", file.display());
    assert!(error.contains(&named) && error.contains("\nhint: end the other process"), "{error}");
    assert!(began.elapsed() > Duration::from_secs(2), "it grew for longer: {:?}", began.elapsed());
    let seen = seen.into_inner().expect("sound");
    assert!(seen.len() > 2 && seen.is_sorted(), "the other's progress is shown: {seen:?}");
    assert!(storage.requests().is_empty());
    drop(holder);
}
