//! `cargo xtask`: checks that the machine has what a command needs, then builds the commands and runs them.
//!
//! Uses the standard library alone, so that it is compiled within a second: a missing program is named before anything
//! else is compiled, and all missing programs at once.
#![allow(clippy::print_stderr, reason = "the one printer of this program")]

mod needs;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Exit code of a mistake of the user or a gap of the machine.
const USER_ERROR: u8 = 2;

/// The cargo that runs this program, with its words for the developer commands.
fn commands() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--release", "--package", "xtask", "--"]);
    command
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let name = arguments.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    if let Err(missing) = needs::check(&name, &needs::Machine) {
        eprintln!("error: {missing}");
        return ExitCode::from(USER_ERROR);
    }
    if needs::builds(&name) {
        eprintln!("==> developer commands");
    }
    let error = commands().args(arguments).exec();
    eprintln!("error: cannot start cargo: {error}\nhint: install Rust with rustup (https://rustup.rs)");
    ExitCode::from(USER_ERROR)
}
