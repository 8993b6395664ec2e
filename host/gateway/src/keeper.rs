//! Ends the programs of a gateway with it: a small process beside the host kills their groups and removes their folders when
//! the host has ended, also by a signal.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// Beginning of the names of the folders.
const PREFIX: &str = "gymkhana-agents-";
/// File in a folder that its gateway holds locked.
const LOCK: &str = "lock";
/// Keeps a list of process groups from its standard input. At its end, which is that of the host, kills them and removes the
/// folder of the first argument.
const SCRIPT: &str = r#"trap '' HUP INT TERM
live=' '
while IFS=' ' read -r sign group; do
    case $sign in
        +) live="$live$group " ;;
        -) live="${live%% "$group" *} ${live#* "$group" }" ;;
    esac
done
for group in $live; do kill -s KILL -- "-$group" 2>/dev/null; done
exec rm -rf -- "$1""#;

/// Folder of the programs of a gateway, and the process that ends them after it.
pub(crate) struct Keeper {
    folder: TempDir,
    /// Tells other gateways that the folder is in use.
    _lock: File,
    watcher: Mutex<Watcher>,
}

struct Watcher {
    process: Child,
    /// `None` at the end.
    input: Option<ChildStdin>,
}

impl Keeper {
    /// Makes the folder and starts the process. Folders that earlier gateways of this user left are removed.
    ///
    /// # Errors
    /// If the folder or the process cannot be made.
    pub(crate) fn start() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        remove_left(&parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "gymkhana-keeper"]).arg(folder.path()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // A signal to the host's group does not reach it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let input = process.stdin.take();
        Ok(Self { folder, _lock: lock, watcher: Mutex::new(Watcher { process, input }) })
    }

    /// Folder in which programs have theirs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Notes a process group, which is killed when the guard is dropped or the host has ended.
    pub(crate) fn keep(&self, group: Pid) -> KeptGroup<'_> {
        self.tell('+', group);
        KeptGroup { keeper: self, group }
    }

    fn tell(&self, sign: char, group: Pid) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(input) = &mut watcher.input else { return };
        // One write, so that the host's end cuts no line. Without the process, the system ends programs but not their children.
        let _ = input.write_all(format!("{sign} {}\n", group.as_raw_nonzero()).as_bytes());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.input = None;
        // It removes the folder and ends.
        let _ = watcher.process.wait();
    }
}

/// A running process group, killed when this is dropped.
pub(crate) struct KeptGroup<'k> {
    keeper: &'k Keeper,
    group: Pid,
}

impl Drop for KeptGroup<'_> {
    fn drop(&mut self) {
        // The group may have ended by itself.
        let _ = kill_process_group(self.group, Signal::KILL);
        self.keeper.tell('-', self.group);
    }
}

/// Removes folders of this user's gateways that have ended without it, as after a loss of power.
fn remove_left(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_left(&path).unwrap_or(false) {
            // What stays is removed by the next gateway.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether this is a folder of this user that no gateway holds.
fn is_left(path: &PathBuf) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    Ok(File::open(path.join(LOCK))?.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A shell with a child in a process group of its own. Returns the shell's number and the file that the child writes to.
    fn group(keeper: &Keeper, name: &str) -> (Child, Pid, PathBuf) {
        let beat = keeper.folder().parent().unwrap().join(format!("beat-{name}-{}", std::process::id()));
        let script = format!("(while :; do echo . >> {}; sleep 0.02; done) & wait", beat.display());
        let child = Command::new("sh").args(["-c", &script]).process_group(0).spawn().unwrap();
        let group = Pid::from_raw(child.id().cast_signed()).unwrap();
        (child, group, beat)
    }

    fn is_written(beat: &Path) -> bool {
        let length = || fs::metadata(beat).map_or(0, |found| found.len());
        let before = length();
        std::thread::sleep(Duration::from_millis(200));
        length() > before
    }

    #[test]
    fn groups_and_folders_end_with_the_host_and_others_stay() {
        let keeper = Keeper::start().unwrap();
        let (mut first, one, first_beat) = group(&keeper, "first");
        let (mut second, other, second_beat) = group(&keeper, "second");
        std::mem::forget(keeper.keep(one));
        // A group that has ended in the eyes of the host is not killed by its number.
        keeper.tell('+', other);
        keeper.tell('-', other);
        assert!(is_written(&first_beat) && is_written(&second_beat));
        let folder = keeper.folder().to_owned();
        fs::write(folder.join("task.json"), "{}").unwrap();
        // The host's death closes the pipe, and runs none of its code.
        keeper.watcher.lock().unwrap().input = None;
        let since = Instant::now();
        while folder.exists() {
            assert!(since.elapsed() < Duration::from_secs(10), "the folder stays");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_written(&first_beat) && is_written(&second_beat));
        kill_process_group(other, Signal::KILL).unwrap();
        let _ = (first.wait(), second.wait(), fs::remove_file(first_beat), fs::remove_file(second_beat));
    }

    #[test]
    fn folders_that_no_gateway_holds_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str, lock: bool| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            lock.then(|| File::create(path.join(LOCK)).unwrap())
        };
        let held = folder("gymkhana-agents-held", true).unwrap();
        held.lock().unwrap();
        folder("gymkhana-agents-left", true);
        folder("gymkhana-agents-strange", false);
        folder("other", true);
        std::os::unix::fs::symlink(parent.path().join("other"), parent.path().join("gymkhana-agents-link")).unwrap();
        remove_left(parent.path());
        let mut names: Vec<_> = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["gymkhana-agents-held", "gymkhana-agents-link", "gymkhana-agents-strange", "other"]);
    }
}
