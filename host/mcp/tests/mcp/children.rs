//! Processes that servers start: they end with the session, with the server, and with the host.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gymkhana_mcp::{McpServer, plugin, tools_of};
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::ToolSession;
use serde_json::json;
use tempfile::TempDir;

use super::{ask, call, open, server, text, wait_until, with_env};

/// Whether the child stays in the process group of its server.
const WAYS: [&str; 2] = ["stays", "leaves"];
/// Variable of a process that plays the host: its server's behaviour.
const BEHAVIOUR: &str = "GYMKHANA_TEST_BEHAVIOUR";

/// A file that a process writes to as long as it lives.
struct Beat(TempDir);

impl Beat {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("beat")
    }

    fn length(&self) -> u64 {
        fs::metadata(self.path()).map_or(0, |found| found.len())
    }

    async fn is_written(&self) -> bool {
        let before = self.length();
        tokio::time::sleep(Duration::from_millis(400)).await;
        self.length() > before
    }

    async fn begins(&self) {
        assert!(wait_until(|| self.length() > 0).await, "the child does not write");
    }

    async fn ends(&self, why: &str) {
        for _ in 0..20 {
            if !self.is_written().await {
                return;
            }
        }
        panic!("the child lives: {why}");
    }
}

/// A process that no server started.
struct Unrelated(Child, Beat);

impl Unrelated {
    fn start() -> Self {
        let beat = Beat::new();
        let script = format!("while :; do echo . >> {}; sleep 0.02; done", beat.path().display());
        let child = Command::new("sh").args(["-c", &script]).process_group(0).spawn().unwrap();
        Self(child, beat)
    }

    async fn lives(&self) {
        assert!(self.1.is_written().await, "a process that no server started was killed");
    }
}

impl Drop for Unrelated {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// A server whose tool `misbehave` starts a child.
fn with_child(behaviour: &str, way: &str, beat: &Path) -> McpServer {
    with_env(with_env(server(behaviour), "BEAT", &beat.display().to_string()), "WAY", way)
}

#[tokio::test(flavor = "multi_thread")]
async fn children_end_with_their_session() {
    let unrelated = Unrelated::start();
    for way in WAYS {
        let (beat, other) = (Beat::new(), Beat::new());
        let mut session = open(&with_child("child", way, &beat.path())).await.unwrap();
        let mut parallel = open(&with_child("child", way, &other.path())).await.unwrap();
        for session in [&mut session, &mut parallel] {
            assert_eq!(text(&session.call(&call("misbehave", &json!({}))).await.unwrap()), "well");
            // The session goes on beside its child.
            assert_eq!(text(&session.call(&call("add", &json!({"a": 2, "b": 40}))).await.unwrap()), "42");
        }
        beat.begins().await;
        other.begins().await;
        drop(session);
        beat.ends(way).await;
        assert!(other.is_written().await, "{way}: the child of another session was killed");
        drop(parallel);
        other.ends(way).await;
        unrelated.lives().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_end_with_a_server_that_is_late_or_dies() {
    let unrelated = Unrelated::start();
    for (behaviour, kind) in [("child-hang", FailureKind::Deadline), ("child-die", FailureKind::Trap)] {
        for way in WAYS {
            let beat = Beat::new();
            let mut server = with_child(behaviour, way, &beat.path());
            server.limits.call = Duration::from_secs(3);
            let error = ask(&server, "misbehave", json!({})).await.unwrap_err();
            assert_eq!(error.kind, kind, "{behaviour}: {error}");
            assert!(beat.length() > 0, "{behaviour}, {way}: the child did not write");
            beat.ends(&format!("{behaviour}, {way}")).await;
            unrelated.lives().await;
        }
    }
    assert_eq!(text(&ask(&server("plain"), "add", json!({"a": 2, "b": 40})).await.unwrap()), "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn children_end_with_a_killed_host() {
    let unrelated = Unrelated::start();
    for behaviour in ["child", "child-hang"] {
        for way in WAYS {
            let (beat, folder) = (Beat::new(), tempfile::tempdir().unwrap());
            let mut host = Command::new(std::env::current_exe().unwrap());
            host.args(["--exact", "children::a_host_that_is_killed", "--include-ignored", "--nocapture"]);
            host.env(BEHAVIOUR, behaviour).env("BEAT", beat.path()).env("WAY", way).env("TMPDIR", folder.path());
            let mut host = host.stdout(Stdio::null()).spawn().unwrap();
            beat.begins().await;
            assert!(beat.is_written().await);
            host.kill().unwrap();
            host.wait().unwrap();
            beat.ends(&format!("{behaviour}, {way}")).await;
            let left = || fs::read_dir(folder.path()).unwrap().count();
            assert!(wait_until(|| left() == 0).await, "{} folders of sessions are left", left());
            unrelated.lives().await;
        }
    }
}

/// The host of the test above, in a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of `children_end_with_a_killed_host`"]
async fn a_host_that_is_killed() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    let way = std::env::var("WAY").unwrap();
    let server = with_child(&behaviour, &way, Path::new(&std::env::var_os("BEAT").unwrap()));
    let tool = plugin(tools_of(&super::server("plain")).unwrap(), Some(server)).unwrap();
    let mut session = ToolSession::open(&tool, None, &[], Seed(1)).await.unwrap();
    let _ = session.call(&call("misbehave", &json!({}))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
}
