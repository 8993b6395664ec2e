//! Programs and MCP servers of a run that start processes: all end with the run, and others stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::{AGENT, PLUGINS, RUN, with_tool, write_program_that_calls};
use crate::common::killed::Signalled;
use crate::common::{Desk, run_arguments};

/// Beginning of the names of the folders of programs.
const PREFIX: &str = "gymkhana-programs-";
/// An MCP server whose tool `misbehave` starts a process that writes to `BEAT`.
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/mcp/server.py");

/// The Python itself: `python3` may be a program that looks for it by variables, which servers do not get.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().expect("Python");
    String::from_utf8(output.stdout).expect("a path").trim().to_owned()
});

/// A desk with a folder for temporary files.
fn desk_of(run: &str) -> Desk {
    let desk = Desk::with_run_file(run).with_file("agent.py", AGENT);
    fs::create_dir(desk.path("temporary")).expect("a folder");
    desk
}

fn start(desk: &Desk) -> Signalled {
    Signalled::of(desk.command(&run_arguments(PLUGINS, &[])).env("TMPDIR", desk.path("temporary")))
}

/// A run of one step, whose program calls the tool of a server that starts a process.
fn desk_with_server(behaviour: &str, way: &str, seconds: u32) -> Desk {
    let desk = desk_of("");
    let run = with_tool(RUN);
    let beat = desk.path("beat").display().to_string();
    let server = format!("command = [{:?}, {SERVER:?}, {behaviour:?}]", *PYTHON);
    let env = format!("env = {{ BEAT = {beat:?}, WAY = {way:?} }}");
    desk.write("run.toml", format!("{run}\n[plugins.arithmetic]\nmcp = {{ {server}, {env}, seconds = {seconds} }}\n"));
    write_program_that_calls(&desk, "call(\"misbehave\", {})");
    desk
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

fn is_written(path: &Path) -> bool {
    let before = length(path);
    std::thread::sleep(Duration::from_millis(400));
    length(path) > before
}

/// Folders of programs that are left.
fn folders(desk: &Desk) -> usize {
    let entries = fs::read_dir(desk.path("temporary")).expect("a folder").flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "not in a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that no run started.
struct Unrelated(Child, PathBuf);

impl Unrelated {
    fn start(desk: &Desk) -> Self {
        let beat = desk.path("unrelated");
        let script = format!("while :; do echo . >> {}; sleep 0.02; done", beat.display());
        Self(Command::new("sh").args(["-c", &script]).spawn().expect("a shell"), beat)
    }
}

impl Drop for Unrelated {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Kills the host once the process of its program or server writes. Nothing of it is left then.
fn killed(desk: &Desk) {
    let unrelated = Unrelated::start(desk);
    let (run, beat) = (start(desk), desk.path("beat"));
    wait_until("a child writes", || length(&beat) > 0);
    assert!(is_written(&beat) && folders(desk) > 0);
    run.send("KILL");
    run.end();
    wait_until("the folders are gone", || folders(desk) == 0);
    wait_until("no child writes", || !is_written(&beat));
    assert!(is_written(&unrelated.1), "a process that the run did not start was killed");
}

#[test]
fn programs_their_children_and_their_folders_end_with_a_killed_host() {
    for prefix in ["", "setsid "] {
        let desk = desk_of(RUN);
        let beat = desk.path("beat").display().to_string();
        let script = format!("{prefix}sh -c 'while :; do echo . >> \"$1\"; sleep 0.02; done' child \"$1\" & wait");
        let command = format!("command = [\"sh\", \"-c\", {script:?}, \"agent\", {beat:?}]");
        desk.write("run.toml", RUN.replace("command = [\"python3\", \"agent.py\"]", &command));
        killed(&desk);
    }
}

#[test]
fn servers_their_children_and_their_folders_end_with_a_killed_host() {
    for way in ["stays", "leaves"] {
        killed(&desk_with_server("child-hang", way, 60));
    }
}

/// The run ends in order, also where its server's calls are late.
#[test]
fn children_of_servers_end_with_the_run() {
    for (behaviour, seconds, words) in [("child", 60, "well"), ("child-hang", 2, "it ran out of time")] {
        let desk = desk_with_server(behaviour, "leaves", seconds);
        let unrelated = Unrelated::start(&desk);
        let outcome = start(&desk).end();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(length(&desk.path("beat")) > 0, "no child wrote");
        wait_until("no child writes", || !is_written(&desk.path("beat")));
        wait_until("the folders are gone", || folders(&desk) == 0);
        assert!(is_written(&unrelated.1), "a process that the run did not start was killed");
        let records = desk.episodes();
        assert_eq!(records.len(), 2 * 2 + 2 * 2);
        for record in &records {
            let turns = format!("{:?}", record.turns);
            assert!(turns.contains(words), "{behaviour}: {turns}");
        }
    }
}
