//! Everything that must hold before a change goes in.

use std::path::PathBuf;
use std::process::Command;

use crate::setup::run_cargo;
use crate::step::{cargo, execute, step};
use crate::workspace::Workspace;
use crate::{peers, setup};

const DENY_VERSION: &str = "0.20.2";

/// Sets up, checks form, lints, dependencies and documentation, and runs the tests; with `peers`, those too that need
/// programs of others.
pub fn run(workspace: &Workspace, peers: bool) -> anyhow::Result<()> {
    step("format", || run_cargo(workspace, &["fmt", "--all", "--check"]))?;
    setup::run(workspace)?;
    step("lints", || {
        run_cargo(workspace, &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })?;
    step("dependencies", || check_dependencies(workspace))?;
    step("documentation", || {
        let mut command = cargo();
        command.args(["doc", "--release", "--workspace", "--no-deps"]).current_dir(&workspace.root);
        execute(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("tests", || run_cargo(workspace, &["test", "--release", "--workspace"]))?;
    if peers {
        peers::run(workspace)?;
    }
    Ok(())
}

/// Licences, bans and sources of all dependencies. Advisories need a database that not every network reaches.
fn check_dependencies(workspace: &Workspace) -> anyhow::Result<()> {
    let deny = ensure_deny(workspace)?;
    execute(
        Command::new(deny)
            .args(["--log-level", "error", "check", "bans", "licenses", "sources"])
            .current_dir(&workspace.root),
    )
}

/// The pinned cargo-deny, built once, without optimisation: it is built in a minute and runs for two seconds.
fn ensure_deny(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let home = workspace.root.join(".tools").join(format!("cargo-deny-{DENY_VERSION}"));
    let program = home.join("bin").join("cargo-deny");
    if !program.exists() {
        execute(
            cargo()
                .args(["install", "cargo-deny", "--version", DENY_VERSION, "--locked", "--debug", "--root"])
                .arg(&home)
                .args(["--config", "profile.dev.debug=0"])
                .current_dir(&workspace.root),
        )?;
    }
    Ok(program)
}
