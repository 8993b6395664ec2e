//! Runs that are killed and resumed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Desk, Outcome, episodes, files_below, outcome, run_arguments};

/// Checks each Parquet part separately, because reading them together could hide duplicates.
pub fn assert_each_stored_once(out: &Path) {
    let alone = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(alone.path().join("episodes")).expect("a folder can be made");
    fs::write(alone.path().join("run.toml"), "").expect("a file can be written");
    let copy = alone.path().join("episodes/part-000001.parquet");
    let mut stored = 0;
    for (part, _) in files_below(&out.join("episodes")) {
        assert!(part.ends_with(".parquet"), "{part} was left");
        fs::copy(out.join("episodes").join(part), &copy).expect("a file can be copied");
        stored += episodes(alone.path()).len();
    }
    assert_eq!(stored, episodes(out).len());
}

pub struct Running(Child);

pub fn start(desk: &Desk, plugins: &'static str) -> Running {
    let mut command = desk.command(&again(desk, plugins));
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the host can be started"))
}

pub fn resume(desk: &Desk, plugins: &'static str) -> Outcome {
    desk.host(&again(desk, plugins))
}

/// Arguments that start the run, or resume it if it has started.
pub fn again(desk: &Desk, plugins: &'static str) -> Vec<&'static str> {
    let begun = desk.path("out/run.toml").exists();
    run_arguments(plugins, if begun { &["--resume"] } else { &[] })
}

/// A run with captured output that receives signals.
pub struct Signalled(Child);

/// Time that a run has to reach a state or to end.
const PATIENCE: Duration = Duration::from_secs(120);

impl Signalled {
    /// Starts `host` with these arguments.
    pub fn start(desk: &Desk, arguments: &[&str]) -> Self {
        Self::of(&mut desk.command(arguments))
    }

    /// Starts a command.
    pub fn of(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("the host can be started"))
    }

    /// Waits until the condition holds; the run must not end before.
    pub fn wait_until(&mut self, reached: impl Fn() -> bool) {
        let since = Instant::now();
        while !reached() {
            assert!(self.is_running() && since.elapsed() < PATIENCE, "the run ended early or did not get there");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("the process can be asked").is_none()
    }

    /// Waits; returns whether the run has not ended meanwhile.
    pub fn lives_for(&mut self, time: Duration) -> bool {
        let since = Instant::now();
        while self.is_running() {
            let left = time.saturating_sub(since.elapsed());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(10)));
        }
        false
    }

    /// Sends a signal by its name, such as `INT`.
    pub fn send(&self, signal: &str) {
        let script = format!("kill -s {signal} {}", self.0.id());
        let sent = Command::new("sh").args(["-c", &script]).status().expect("a shell");
        assert!(sent.success(), "{signal} cannot be sent");
    }

    /// Waits for the end of a run that must come soon.
    pub fn end_soon(mut self) -> Outcome {
        let since = Instant::now();
        while self.is_running() {
            if since.elapsed() > PATIENCE {
                self.send("KILL");
                panic!("the run does not end: {:?}", self.end());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end()
    }

    /// Ends a worker in order; returns what it said.
    pub fn leave(self) -> String {
        self.send("TERM");
        let outcome = self.end_soon();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.talk
    }

    /// Waits for the end of the run.
    pub fn end(self) -> Outcome {
        outcome(self.0.wait_with_output().expect("the process can be waited for"))
    }
}

impl Running {
    /// Kills the process shortly after this many changes of its folder; returns false if it ended before, which must be
    /// a success.
    pub fn killed_after(mut self, changes: u64, pause: Duration, out: &Path) -> bool {
        let mut seen = files_below(out);
        let mut left = changes;
        while left > 0 {
            if let Some(status) = self.0.try_wait().expect("the process can be asked") {
                assert!(status.success(), "{status}");
                return false;
            }
            let now = files_below(out);
            if now != seen {
                (seen, left) = (now, left - 1);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(pause);
        self.0.kill().expect("the process can be killed");
        let status = self.0.wait().expect("the process can be waited for");
        !status.success()
    }
}
