//! The process of a server: its environment, its network, its folder and its end.

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_keeper::{Keeper, KeptProgram, hide_memory};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::server::ChildServer;
use crate::{McpError, waiting};

/// Part of the error output that messages show, in bytes.
const STDERR_BYTES: usize = 2 << 10;
/// Variables of this process that a server gets.
const INHERITED: [&str; 1] = ["PATH"];

/// The keeper of all servers, which starts with the first one and ends with this process.
static KEEPER: Mutex<Option<&'static Keeper>> = Mutex::new(None);

/// A running server with all processes that it started. Dropping it kills them.
pub(crate) struct ServerProcess {
    /// `None` after the end.
    child: Option<Child>,
    /// Kills the processes when it is dropped, before the child is waited for: its number cannot belong to another process.
    kept: Option<KeptProgram<'static>>,
    /// Folder of the session, removed at its end.
    folder: Option<TempDir>,
}

/// End of a server's error output, for messages.
pub(crate) type StderrEnd = Arc<Mutex<Vec<u8>>>;

/// A started process with the ends of its pipes.
pub(crate) struct StartedProcess {
    pub(crate) process: ServerProcess,
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
}

impl ServerProcess {
    /// Starts the program in a process group of its own. Must run on the threads of sessions, which live as long as
    /// this process: the kernel kills the program when the thread that started it ends.
    pub(crate) fn start(server: &ChildServer, stderr: StderrEnd) -> Result<StartedProcess, McpError> {
        let [program, arguments @ ..] = &server.command[..] else { return Err(McpError::NoCommand) };
        let failed = |source| McpError::Spawn { program: program.clone(), source };
        let keeper = keeper().map_err(failed)?;
        let folder = keeper.program_folder().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        for name in INHERITED {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("LANG", "C.UTF-8").env("HOME", folder.path()).env("TMPDIR", folder.path());
        command.envs(server.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(server.folder.as_deref().unwrap_or(folder.path()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        restrict(&mut command, server.network);
        hide_memory();
        let mut child = command.spawn().map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM | libc::ENOSPC | libc::ENOSYS) if !server.network => {
                McpError::Isolation { program: program.clone(), source }
            }
            _ => failed(source),
        })?;
        let kept = child.id().and_then(|id| keeper.keep(id, folder.path()));
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let Some(errors) = errors {
            tokio::spawn(keep_end(errors, stderr));
        }
        let process = Self { child: Some(child), kept, folder: Some(folder) };
        match (input, output) {
            (Some(input), Some(output)) => Ok(StartedProcess { process, input, output }),
            _ => Err(failed(io::Error::other("its pipes are missing"))),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.kept.take());
        let Some(mut child) = self.child.take() else { return };
        let folder = self.folder.take();
        if let Ok(sessions) = waiting::sessions() {
            sessions.spawn(async move {
                // The folder is removed when no process writes to it any longer; an error leaves it to the system.
                let _ = child.wait().await;
                drop(folder);
            });
        }
    }
}

fn keeper() -> io::Result<&'static Keeper> {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    match *keeper {
        Some(keeper) => Ok(keeper),
        None => Ok(*keeper.insert(Box::leak(Box::new(Keeper::start()?)))),
    }
}

/// Reads the error output to its end and keeps the last part.
async fn keep_end(mut errors: ChildStderr, kept: StderrEnd) {
    let mut buffer = [0; STDERR_BYTES];
    while let Ok(count) = errors.read(&mut buffer).await
        && count > 0
    {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }
}

/// Lets the program die with this process and, without `network`, gives it network interfaces of its own, of which
/// none leads anywhere.
#[cfg(target_os = "linux")]
fn restrict(command: &mut Command, network: bool) {
    // SAFETY: these calls take no arguments and return integers.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let maps = [
        (c"/proc/self/uid_map", format!("{user} {user} 1")),
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    let setup = move || {
        // The files of `maps` belong to the user of a process whose memory is not hidden; that of the program is not.
        // SAFETY: the arguments are those of this option.
        checked(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1 as libc::c_ulong) })?;
        if !network {
            leave_network(&maps)?;
        }
        // SAFETY: the arguments are those of this option.
        checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) })
    };
    // SAFETY: between fork and exec, `setup` makes system calls and nothing else: all texts were made before.
    unsafe { command.pre_exec(setup) };
}

/// Moves the process into a new network namespace, within a new user namespace if it has no right to do so otherwise.
#[cfg(target_os = "linux")]
fn leave_network(maps: &[(&std::ffi::CStr, String)]) -> io::Result<()> {
    // SAFETY: the call takes an integer.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        return Ok(());
    }
    // SAFETY: as above.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
    for (path, text) in maps {
        // SAFETY: the path ends with a zero byte; the text is valid for its length.
        unsafe {
            let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            checked(file)?;
            let written = libc::write(file, text.as_ptr().cast(), text.len());
            libc::close(file);
            if written < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Refuses the program without `network`, because this system has no means to restrict it.
#[cfg(not(target_os = "linux"))]
fn restrict(command: &mut Command, network: bool) {
    if !network {
        // SAFETY: the function makes an error of a number, without memory.
        unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(libc::ENOSYS))) };
    }
}
