//! Licences, bans, sources and advisories of all dependencies, by cargo-deny.

use std::process::Command;

use crate::step::{execute, output_of, skip, step};
use crate::tools::{Tool, ensure_tool};
use crate::workspace::Workspace;

const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", arguments: &[] };

/// Checks all dependencies.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("dependencies", || {
        let deny = ensure_tool(&workspace.root, &DENY)?;
        let quiet = |arguments: &[&str]| {
            let mut command = Command::new(&deny);
            command.args(["--log-level", "error"]).args(arguments).current_dir(&workspace.root);
            command
        };
        execute(&mut quiet(&["check", "bans", "licenses", "sources"]))?;
        check_advisories(&mut quiet(&["fetch", "db"]), &mut quiet(&["check", "--disable-fetch", "advisories"]))
    })
}

/// Checks the advisories if their database can be fetched; reports a skipped check otherwise.
fn check_advisories(fetch: &mut Command, check: &mut Command) -> anyhow::Result<()> {
    if output_of(fetch).is_none() {
        skip("advisories", "cannot fetch their database");
        return Ok(());
    }
    execute(check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::skipped;

    #[test]
    fn advisories_fail_only_with_their_database() {
        let checked =
            |fetched: &str, sound: &str| check_advisories(&mut Command::new(fetched), &mut Command::new(sound));
        assert!(checked("true", "true").is_ok());
        assert!(checked("true", "false").is_err(), "an advisory is a failure");
        let before = skipped();
        assert!(checked("false", "false").is_ok(), "without a database the check is skipped");
        assert_eq!(skipped(), before + 1, "the summary names it");
    }
}
