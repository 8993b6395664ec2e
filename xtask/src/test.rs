//! Everything that must hold before a change goes in.

use std::path::PathBuf;
use std::process::Command;

use crate::setup::run_cargo;
use crate::step::{cargo, execute, output_of, step};
use crate::workspace::Workspace;
use crate::{authors, peers, setup};

const DENY_VERSION: &str = "0.20.2";

/// Sets up, checks form, lints, dependencies and documentation, and runs the tests; with `peers`, those too that need
/// programs of others.
pub fn run(workspace: &Workspace, peers: bool) -> anyhow::Result<()> {
    step("format", || run_cargo(workspace, &["fmt", "--all", "--check"]))?;
    setup::run(workspace)?;
    authors::build(workspace)?;
    authors::test(workspace)?;
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

/// Licences, bans, sources and advisories of all dependencies.
fn check_dependencies(workspace: &Workspace) -> anyhow::Result<()> {
    let deny = ensure_deny(workspace)?;
    let quietly = |arguments: &[&str]| {
        let mut command = Command::new(&deny);
        command.args(["--log-level", "error"]).args(arguments).current_dir(&workspace.root);
        command
    };
    execute(&mut quietly(&["check", "bans", "licenses", "sources"]))?;
    check_advisories(&mut quietly(&["fetch", "db"]), &mut quietly(&["check", "--disable-fetch", "advisories"]))
}

/// Advisories stand in a database that not every network reaches: without it they are left out. With it, one that
/// concerns us is a failure.
fn check_advisories(fetch: &mut Command, check: &mut Command) -> anyhow::Result<()> {
    if output_of(fetch).is_none() {
        eprintln!("    advisories are left out: their database cannot be fetched here");
        return Ok(());
    }
    execute(check)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_fail_only_where_their_database_is() {
        let checked =
            |fetched: &str, sound: &str| check_advisories(&mut Command::new(fetched), &mut Command::new(sound));
        assert!(checked("true", "true").is_ok());
        assert!(checked("true", "false").is_err(), "an advisory is a failure");
        assert!(checked("false", "false").is_ok(), "without a database nothing is known");
    }
}
