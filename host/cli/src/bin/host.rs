//! `host` as it is typed: settles what must be settled before libtorch is loaded, then becomes `gymkhana-main`.
//!
//! The system loads libtorch before the first line of a program that is linked with it, so that such a program
//! cannot say in words that it is missing, and libgomp reads its wait policy at that moment. This program is
//! linked with neither.
#![allow(clippy::print_stderr, reason = "the one printer of this program")]

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The version that the host was built with, exactly.
const VERSION: &str = env!("GYMKHANA_LIBTORCH_VERSION");

/// Where libtorch lay when the host was built.
const BUILT_WITH: &str = env!("GYMKHANA_LIBTORCH");

/// Where the system looks for shared libraries first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// libgomp's default policy makes two threads on shared cores fifty times slower, since they spin at every barrier.
const WAIT_POLICY: (&str, &str) = ("OMP_WAIT_POLICY", "passive");

fn main() -> ExitCode {
    let Err(message) = launch();
    eprintln!("error: {message}");
    ExitCode::from(2)
}

/// Becomes `gymkhana-main`; returns only with what is in the way.
fn launch() -> Result<Infallible, String> {
    let libtorch = find_libtorch(std::env::var_os("LIBTORCH").map(PathBuf::from))?;
    let own = std::env::current_exe().map_err(|error| format!("`host` cannot find its own file: {error}"))?;
    let program = own.with_file_name("gymkhana-main");
    let mut command = Command::new(&program);
    // Its help and its messages call it what was typed.
    command.arg0("host").args(std::env::args_os().skip(1)).env(LIBRARY_PATH, library_path(&libtorch));
    if std::env::var_os(WAIT_POLICY.0).is_none() {
        command.env(WAIT_POLICY.0, WAIT_POLICY.1);
    }
    let error = command.exec();
    Err(format!(
        "`{}` cannot be started ({error}); it belongs beside `host`: build both with `cargo xtask setup`, and move both \
         if you move one",
        program.display()
    ))
}

/// The user's libtorch if there is one, else that of the build, in either case of the right version.
fn find_libtorch(users_own: Option<PathBuf>) -> Result<PathBuf, String> {
    let (folder, whose) = match users_own {
        Some(folder) => (folder, "your LIBTORCH"),
        None => (PathBuf::from(BUILT_WITH), "the libtorch that `host` was built with"),
    };
    let version = fs::read_to_string(folder.join("build-version")).unwrap_or_default();
    let found = match version.trim() {
        version if version.split('+').next() == Some(VERSION) && folder.join("lib").is_dir() => return Ok(folder),
        "" => "is not there (no `build-version`)".to_owned(),
        version => format!("is version {version}"),
    };
    Err(format!(
        "{whose}, `{}`, {found}; `host` needs libtorch {VERSION}: set LIBTORCH to a folder of that version, or run \
         `cargo xtask setup` in Gymkhana's repository, which fetches one",
        folder.display()
    ))
}

/// The folder of the libraries, before whatever the user's environment says.
fn library_path(libtorch: &Path) -> OsString {
    let mut path = libtorch.join("lib").into_os_string();
    if let Some(rest) = std::env::var_os(LIBRARY_PATH).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}
