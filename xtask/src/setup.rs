//! Everything that a fresh clone needs before it can build, test and run.

use std::path::Path;
use std::process::Command;

use crate::step::{Missing, cargo, execute, output_of, step};
use crate::workspace::Workspace;
use crate::{libtorch, plugins};

const TARGET: &str = "wasm32-wasip2";

/// The compilers that everything needs; Rust's part is added where it can be.
fn check_tools() -> anyhow::Result<()> {
    if std::env::consts::OS != "linux" || std::env::consts::ARCH != "x86_64" {
        return Err(Missing("Gymkhana runs on Linux on x86-64 so far; use such a machine or container".into()).into());
    }
    if std::env::var_os("CXX").is_none() && output_of(Command::new("c++").arg("--version")).is_none() {
        let how = "no C++ compiler (`c++`) is installed, and libtorch's binding needs one; install it, on Debian or \
                   Ubuntu with `apt-get install g++`, on Fedora with `dnf install gcc-c++`";
        return Err(Missing(how.into()).into());
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
    let how = format!(
        "Rust cannot build for {TARGET}, which plugins need; install Rust with rustup (https://rustup.rs) and run \
         `rustup target add {TARGET}`"
    );
    Err(match added {
        Ok(()) => Missing(how).into(),
        Err(error) => anyhow::Error::new(Missing(format!("{how} ({error:#})"))),
    })
}

/// Checks the tools, fetches libtorch, builds the plugins and the host.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("tools", check_tools)?;
    step("libtorch", || libtorch::ensure(&workspace.root))?;
    plugins::build(workspace)?;
    // The whole workspace is selected, and not the host alone, because cargo unites the features of what it builds
    // together: `cargo test --workspace` then finds libtorch's binding and wasmtime built as it wants them.
    step("host", || {
        let selection = ["build", "--release", "--workspace", "--exclude", "xtask", "--bins"];
        run_cargo(workspace, &selection)
    })
}

/// Runs cargo in the repository.
pub fn run_cargo(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    execute(cargo().args(arguments).current_dir(&workspace.root))
}
