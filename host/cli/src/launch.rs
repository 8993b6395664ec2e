//! Start of `gymkhana-train`: locates libtorch, sets the environment and replaces this process.
//!
//! The system loads the libtorch of a linked program before its first line, so such a program cannot report a missing
//! libtorch; libgomp reads its wait policy at the same time. Loading also takes 0.4 s, which other commands need not pay.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Classify, CliError, CliResult};
use crate::libtorch;

/// The program with the commands that need a model.
const TRAINER: &str = "gymkhana-train";

/// Search path of shared libraries.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Number of rounds that a thread of libgomp waits at a barrier before it sleeps. A training step has thousands of short
/// operations with a barrier each, and to wake a thread takes as long as most of them. libgomp's default of 300,000 makes
/// two threads on shared cores fifty times slower.
const SPINS: (&str, &str) = ("GOMP_SPINCOUNT", "2000");

/// Variables by which a user decides how libgomp waits.
const WAITING: [&str; 2] = [SPINS.0, "OMP_WAIT_POLICY"];

/// Execs the trainer with this process's arguments; returns only on failure.
pub fn trainer() -> CliError {
    let Err(error) = exec();
    error
}

fn exec() -> CliResult<Infallible> {
    // Help and messages show the name that was typed: `host` or `gymkhana`.
    let typed = std::env::args_os().next().unwrap_or_else(|| "host".into());
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = command(&arguments)?;
    let error = command.arg0(typed).exec();
    let program = command.get_program().display();
    Err(CliError::user(format!(
        "`{program}` cannot be started: {error}\nhint: keep it beside `host`, or build both with `cargo xtask setup`"
    )))
}

/// The trainer with these arguments.
///
/// # Errors
/// If there is no libtorch that it can use.
pub fn command(arguments: &[impl AsRef<OsStr>]) -> CliResult<Command> {
    let libtorch = find_libtorch(std::env::var_os("LIBTORCH").map(PathBuf::from)).map_err(CliError::user)?;
    // The file itself where the program was started through a link.
    let own = std::env::current_exe().user_context("`host` cannot find its own file")?;
    let mut command = Command::new(own.with_file_name(TRAINER));
    command.args(arguments).env(LIBRARY_PATH, library_path(&libtorch));
    if WAITING.iter().all(|name| std::env::var_os(name).is_none()) {
        command.env(SPINS.0, SPINS.1);
    }
    Ok(command)
}

/// Folder of libtorch: that of LIBTORCH, else that of the installation or the build; its version must match.
fn find_libtorch(users_own: Option<PathBuf>) -> Result<PathBuf, String> {
    let (folder, whose) = libtorch::folder(users_own);
    if folder.as_os_str().is_empty() {
        return Err(
            "the command needs the trainer, which is not installed\nhint: run `pip install gymkhana-rl-train`, or \
                    `cargo xtask setup` in Gymkhana's repository"
                .to_owned(),
        );
    }
    let version = libtorch::version(&folder);
    let found = match version.as_str() {
        "" => "has neither `build-version` nor `version.py`".to_owned(),
        version if !libtorch::is_required(version) => format!("is version {version}"),
        _ if folder.join("lib").is_dir() => return Ok(folder),
        _ => "has no folder `lib`".to_owned(),
    };
    Err(format!(
        "{whose}, `{}`, {found}, but `host` needs libtorch {}\nhint: set LIBTORCH to a folder of that version, or run \
         `cargo xtask setup` in Gymkhana's repository",
        folder.display(),
        libtorch::REQUIRED
    ))
}

/// Library path: libtorch's folder before the user's own.
fn library_path(libtorch: &Path) -> OsString {
    let mut path = libtorch.join("lib").into_os_string();
    if let Some(rest) = std::env::var_os(LIBRARY_PATH).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}
