//! Ends programs that the host starts, with all processes that they started: at the end of an episode or session, and, by a
//! small process beside the host, when the host has ended, also by a signal.
//!
//! Each program has a process group and a folder of its own. A process that leaves the group is found by the folder in its
//! environment, which programs get as `TMPDIR`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod captured;
mod strays;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gymkhana_waits::{ChildWait, Counterpart};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

pub use captured::Captured;

/// Beginning of the names of the folders.
const PREFIX: &str = "gymkhana-programs-";
/// File in a folder that its host holds locked.
const LOCK: &str = "lock";
/// Longest time in which the process that ends programs ends itself.
const LAST_PROGRAMS: Duration = Duration::from_secs(5);
/// Keeps a list of process groups from its standard input. At its end, which is that of the host, kills them and the processes
/// with the folder of the first argument in their environment, and removes the folder. A process that starts others meanwhile
/// is met again.
const SCRIPT: &str = r#"trap '' HUP INT TERM
live=' '
while IFS=' ' read -r sign group; do
    case $sign in
        +) live="$live$group " ;;
        -) live="${live%% "$group" *} ${live#* "$group" }" ;;
    esac
done
for group in $live; do kill -s KILL -- "-$group" 2>/dev/null; done
for round in 1 2 3 4; do
    strays=$(grep -lsF -- "$1/" /proc/[0-9]*/environ)
    [ -n "$strays" ] || break
    for stray in $strays; do
        stray=${stray#/proc/}
        kill -s KILL -- "${stray%/environ}" 2>/dev/null
    done
done
exec rm -rf -- "$1""#;

/// Folder of the programs of a host, and the process that ends them after it.
pub struct Keeper {
    folder: TempDir,
    /// Tells other hosts that the folder is in use.
    _lock: File,
    watcher: Mutex<Watcher>,
}

struct Watcher {
    process: Child,
    /// `None` at the end.
    input: Option<ChildStdin>,
}

impl Keeper {
    /// Makes the folder and starts the process. Folders that earlier hosts of this user left are removed.
    ///
    /// # Errors
    /// If the folder or the process cannot be made.
    pub fn start() -> io::Result<Self> {
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

    /// Makes the folder of a program, which is its `TMPDIR`.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn program_folder(&self) -> io::Result<TempDir> {
        tempfile::Builder::new().prefix("program-").tempdir_in(self.folder.path())
    }

    /// Notes a program that leads the process group of its number and has this folder. It ends with all processes that it
    /// started when the guard is dropped or the host has ended. `None` if no process can have the number.
    pub fn keep(&self, leader: u32, folder: &Path) -> Option<KeptProgram<'_>> {
        let group = Pid::from_raw(leader.cast_signed())?;
        self.tell('+', group);
        Some(KeptProgram { keeper: self, group, folder: folder.to_owned() })
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
        // It removes the folder and ends. If it is stopped, the folder is removed with this value.
        let (named, say) = ("that ends programs".to_owned(), |_: &str| {});
        let wait = ChildWait {
            counterpart: Counterpart::BuildTool,
            named,
            bound: LAST_PROGRAMS,
            first_report: LAST_PROGRAMS,
            say: &say,
        };
        let _ = wait.end(&mut watcher.process);
    }
}

/// A running program with the processes that it started, all killed when this is dropped.
pub struct KeptProgram<'k> {
    keeper: &'k Keeper,
    group: Pid,
    folder: PathBuf,
}

impl Drop for KeptProgram<'_> {
    fn drop(&mut self) {
        // The group may have ended by itself.
        let _ = kill_process_group(self.group, Signal::KILL);
        strays::kill(&self.folder);
        self.keeper.tell('-', self.group);
    }
}

/// Keeps the host's memory, which holds keys, from programs of the same user. A user with the right to trace all processes
/// reads it all the same.
pub fn hide_memory() {
    #[cfg(target_os = "linux")]
    // An error leaves the memory as it was before.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Has the system kill the program when the host is killed. The thread that starts it must live as long as the host.
#[cfg(target_os = "linux")]
pub fn die_with_the_host(command: &mut Command) {
    let setup = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec, `setup` makes one call of the system and nothing else.
    unsafe { command.pre_exec(setup) };
}

/// Other systems leave the program alive.
#[cfg(not(target_os = "linux"))]
pub fn die_with_the_host(_command: &mut Command) {}

/// Removes folders of this user's hosts that have ended without it, as after a loss of power.
fn remove_left(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_left(&path).unwrap_or(false) {
            // What stays is removed by the next host.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether this is a folder of this user that no host holds.
fn is_left(path: &PathBuf) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    Ok(File::open(path.join(LOCK))?.try_lock().is_ok())
}

#[cfg(test)]
mod tests;
