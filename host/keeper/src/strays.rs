//! Processes that left the group of their program, found by a folder in their environment.

use std::path::Path;

/// Rounds in which new processes are found, while others end.
#[cfg(target_os = "linux")]
const ROUNDS: usize = 4;

/// Kills all processes with a path in this folder in their environment. A process that starts others meanwhile is met again.
#[cfg(target_os = "linux")]
pub fn kill(folder: &Path) {
    use std::os::unix::ffi::OsStrExt as _;

    let rounds = (0..ROUNDS).map(|_| kill_once(folder.as_os_str().as_bytes()));
    // The last round that is made finds none.
    let _ = rounds.take_while(|killed| *killed).count();
}

/// Other systems do not show the environment.
#[cfg(not(target_os = "linux"))]
pub fn kill(_folder: &Path) {}

/// Whether a process was killed.
#[cfg(target_os = "linux")]
fn kill_once(folder: &[u8]) -> bool {
    use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let mut killed = false;
    for entry in entries.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(process) = number.filter(|process| *process != getpid()) else { continue };
        // The handle is opened first: a number that another process gets meanwhile is not killed.
        let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(folder.len()).any(|part| part == folder) {
            killed |= pidfd_send_signal(&handle, Signal::KILL).is_ok();
        }
    }
    killed
}
