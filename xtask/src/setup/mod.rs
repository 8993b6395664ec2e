//! Set-up of a fresh clone: tools, libtorch, plugins, the host and a local registry.

pub mod compiler;
pub mod disk;
pub mod libtorch;
pub mod plugins;
pub mod registry;
pub mod servers;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::step::{UserError, cargo, execute, output_of, step};
use crate::workspace::Workspace;

const TARGET: &str = "wasm32-wasip2";

/// The host's programs: the launcher and the program that it starts.
pub const PROGRAMS: [&str; 2] = ["host", "gymkhana-train"];

/// The launcher.
const PROGRAM: &str = "host";

/// File in cargo's output that exists if the host was built with all commands.
const ALL_COMMANDS: &str = "release/host-with-all-commands";

/// Second name of the program: many systems have a DNS tool called `host`.
pub const SECOND_NAME: &str = "gymkhana";

/// Adds Rust's WebAssembly target. `xtask/start` has checked the other programs that the machine must have.
pub fn add_wasm_target() -> anyhow::Result<()> {
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

/// Fetches libtorch and servers, builds the plugins and the host, and publishes the plugins in a local registry.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    build(workspace)?;
    step("servers", || servers::ensure(&workspace.root))?;
    registry::run(workspace, registry::Refusal::LeavesOut)
}

/// As [`run`], without servers and registry.
pub fn build(workspace: &Workspace) -> anyhow::Result<()> {
    step("WebAssembly target", add_wasm_target)?;
    step("libtorch", || libtorch::ensure(&workspace.root))?;
    plugins::build(workspace)?;
    // The whole workspace is selected because cargo unites the features of packages built together: `cargo test
    // --workspace` then reuses libtorch's binding and wasmtime.
    step("host", || {
        let programs = PROGRAMS.map(|name| ["--bin", name]);
        run_cargo(
            workspace,
            &[&["build", "--release", "--workspace", "--exclude", "xtask"], programs.as_flattened()].concat(),
        )?;
        link_second_name(&workspace.target.join("release"))?;
        fs::write(workspace.target.join(ALL_COMMANDS), "").context("cannot note that the host is built")
    })
}

/// Whether the host was built with all commands.
pub fn is_built(workspace: &Workspace) -> bool {
    workspace.target.join(ALL_COMMANDS).exists()
}

/// Builds the host's programs for the demo, with some features: without the commands that it does not need, unless they were
/// built before.
pub fn build_for_demo(workspace: &Workspace, features: &str) -> anyhow::Result<()> {
    if is_built(workspace) {
        return build(workspace);
    }
    step("host for the demo", || {
        let programs = PROGRAMS.map(|name| ["--bin", name]);
        let package =
            ["build", "--release", "--package", "gymkhana-cli", "--no-default-features", "--features", features];
        run_cargo(workspace, &[&package[..], programs.as_flattened()].concat())?;
        link_second_name(&workspace.target.join("release"))
    })
}

/// Links the program's second name in the folder of the build, so that either name can be put on a user's path.
fn link_second_name(folder: &Path) -> anyhow::Result<()> {
    let link = folder.join(SECOND_NAME);
    if fs::read_link(&link).is_ok_and(|target| target == Path::new(PROGRAM)) {
        return Ok(());
    }
    // The rename replaces an older link without a time in which there is none.
    let temporary = folder.join(format!("{SECOND_NAME}.{}.tmp", std::process::id()));
    symlink(PROGRAM, &temporary)?;
    fs::rename(&temporary, &link).with_context(|| format!("cannot link `{}`", link.display()))
}

/// Runs cargo in the repository.
pub fn run_cargo(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    run_cargo_with(workspace, arguments, &[])
}

/// Runs cargo in the repository with these environment variables.
pub fn run_cargo_with(workspace: &Workspace, arguments: &[&str], variables: &[(&str, &OsStr)]) -> anyhow::Result<()> {
    execute(cargo().args(arguments).envs(variables.iter().copied()).current_dir(&workspace.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_name_is_a_link_to_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("gymkhana");
        fs::write(folder.path().join("host"), "#!/bin/sh\necho \"$0\"").expect("written");
        for before in ["nothing", "the link", "an older link", "a file"] {
            match before {
                "an older link" => {
                    fs::remove_file(&link).expect("removed");
                    symlink("elsewhere", &link).expect("linked");
                }
                "a file" => {
                    fs::remove_file(&link).expect("removed");
                    fs::write(&link, "an older copy").expect("written");
                }
                _ => {}
            }
            link_second_name(folder.path()).expect(before);
            assert_eq!(fs::read_link(&link).expect(before), Path::new("host"), "{before}");
            let found = fs::canonicalize(&link).expect(before);
            assert_eq!(found.file_name(), Some(OsStr::new("host")), "{before}");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "{before}");
        }
    }
}
