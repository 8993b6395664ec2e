//! Runs that are killed and resumed.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::{Desk, Outcome, episodes, files_below, run_arguments};

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
fn again(desk: &Desk, plugins: &'static str) -> Vec<&'static str> {
    let begun = desk.path("out/run.toml").exists();
    run_arguments(plugins, if begun { &["--resume"] } else { &[] })
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
