//! Set-up of a fresh clone: tools, libtorch, plugins, the host and a local registry.

pub mod compiler;
pub mod libtorch;
pub mod plugins;
mod registry;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::step::{UserError, cargo, execute, output_of, step};
use crate::workspace::Workspace;

const TARGET: &str = "wasm32-wasip2";

/// Selection of the host's programs: the launcher and the program that it starts.
pub const HOST: [&str; 4] = ["--bin", "host", "--bin", "gymkhana-train"];

/// Checks the platform and the C++ compiler; adds Rust's WebAssembly target.
fn check_tools() -> anyhow::Result<()> {
    if std::env::consts::OS != "linux" || std::env::consts::ARCH != "x86_64" {
        let message = "unsupported platform: Gymkhana runs on Linux on x86-64\nhint: use such a machine or container";
        return Err(UserError(message.to_owned()).into());
    }
    if std::env::var_os("CXX").is_none() && output_of(Command::new("c++").arg("--version")).is_none() {
        let message = "no C++ compiler (`c++`) found: libtorch's binding needs one\nhint: on Debian or Ubuntu run \
                       `apt-get install g++`, on Fedora `dnf install gcc-c++`";
        return Err(UserError(message.to_owned()).into());
    }
    add_wasm_target()
}

fn add_wasm_target() -> anyhow::Result<()> {
    let installed = || {
        let folder = output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
        folder.is_some_and(|folder| Path::new(&folder).is_dir())
    };
    if installed() {
        return Ok(());
    }
    let added = execute(Command::new("rustup").args(["target", "add", TARGET]));
    if installed() {
        return Ok(());
    }
    let message = format!(
        "Rust cannot build for {TARGET}: the target is missing\nhint: install Rust with rustup (https://rustup.rs) and \
         run `rustup target add {TARGET}`"
    );
    Err(match added {
        Ok(()) => UserError(message).into(),
        Err(error) => UserError(format!("{message} ({error:#})")).into(),
    })
}

/// Checks the tools, fetches libtorch, builds the plugins and the host, and publishes the plugins in a local registry.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("tools", check_tools)?;
    step("libtorch", || libtorch::ensure(&workspace.root))?;
    plugins::build(workspace)?;
    // The whole workspace is selected because cargo unites the features of packages built together: `cargo test
    // --workspace` then reuses libtorch's binding and wasmtime.
    step("host", || {
        run_cargo(workspace, &[&["build", "--release", "--workspace", "--exclude", "xtask"], &HOST[..]].concat())
    })?;
    registry::run(workspace)
}

/// Runs cargo in the repository.
pub fn run_cargo(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    run_cargo_with(workspace, arguments, &[])
}

/// Runs cargo in the repository with these environment variables.
pub fn run_cargo_with(workspace: &Workspace, arguments: &[&str], variables: &[(&str, &OsStr)]) -> anyhow::Result<()> {
    execute(cargo().args(arguments).envs(variables.iter().copied()).current_dir(&workspace.root))
}
