//! A hub of models on loopback with the endpoints that a download needs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Name of the model.
pub const MODEL: &str = "owner/model";

/// State of a hub: commits of one model, and its branches.
#[derive(Default)]
struct Held {
    commits: BTreeMap<String, PathBuf>,
    branches: BTreeMap<String, String>,
    /// Requested paths.
    asked: Vec<String>,
}

/// A hub that serves until the test ends.
#[derive(Clone)]
pub struct FakeHub {
    held: Arc<Mutex<Held>>,
    endpoint: String,
}

impl FakeHub {
    /// A hub without a model.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it has an address"));
        let held: Arc<Mutex<Held>> = Arc::default();
        let serving = Arc::clone(&held);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Disconnected clients do not matter to the test.
                let _gone = answer(stream, &serving);
            }
        });
        Self { held, endpoint }
    }

    /// Points a branch to a commit with the files of a folder.
    pub fn push(&self, branch: &str, commit: &str, folder: &Path) {
        let mut held = self.held.lock().expect("no test panics here");
        held.commits.insert(commit.to_owned(), folder.to_owned());
        held.branches.insert(branch.to_owned(), commit.to_owned());
    }

    /// Paths requested since the last call, without the model's name.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.held.lock().expect("no test panics here").asked)
    }

    /// Makes a command use this hub and cache models in this folder.
    pub fn used_by<'a>(&self, command: &'a mut Command, cache: &Path) -> &'a mut Command {
        for variable in ["HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"] {
            command.env_remove(variable);
        }
        command.env("HF_ENDPOINT", &self.endpoint).env("HF_HOME", cache)
    }
}

fn answer(mut stream: TcpStream, held: &Mutex<Held>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let asked = path.strip_prefix(&format!("/{MODEL}/resolve/")).unwrap_or_default().to_owned();
    let mut held = held.lock().expect("no test panics here");
    held.asked.push(asked.clone());
    let (revision, name) = asked.split_once('/').unwrap_or_default();
    let commit = held.branches.get(revision).cloned().unwrap_or_else(|| revision.to_owned());
    let Some(folder) = held.commits.get(&commit) else {
        return stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nx-error-code: RevisionNotFound\r\ncontent-length: 0\r\n\r\n");
    };
    let Ok(bytes) = std::fs::read(folder.join(name)) else {
        let head = format!("x-error-code: EntryNotFound\r\nx-repo-commit: {commit}\r\ncontent-length: 0\r\n\r\n");
        return stream.write_all(format!("HTTP/1.1 404 Not Found\r\n{head}").as_bytes());
    };
    let tag = format!("{}-{}-{name}", &commit[..8], bytes.len());
    let head = format!("etag: \"{tag}\"\r\nx-repo-commit: {commit}\r\ncontent-length: {}\r\n\r\n", bytes.len());
    stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes())?;
    if request.starts_with("HEAD ") { Ok(()) } else { stream.write_all(&bytes) }
}
