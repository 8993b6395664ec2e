//! Provenance of a release: an in-toto statement with SLSA's predicate of builds, version 1. It is not signed here; the
//! release's workflow attests the same files.

use std::fs;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{CHECKSUMS, Release, VERSION, last_commit, names, now, sha256};
use crate::setup::libtorch;
use crate::step::output_of;

/// The file of the statement.
pub const FILE: &str = "provenance.json";

/// Description of the parameters below: the page on releases.
const BUILD_TYPE: &str = "urn:gymkhana:cargo-xtask-dist:1";

/// Files that the build reads beside the sources, and that pin all it downloads.
const LOCKS: [&str; 4] = ["Cargo.lock", "plugins/requirements.txt", "rust-toolchain.toml", "sdk/js/package-lock.json"];

/// Variables of GitHub's workflows that together name a run.
const RUN: [&str; 3] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"];

/// Writes the statement about all files in the folder.
pub fn write(release: &Release<'_>, started: &str) -> anyhow::Result<()> {
    let subjects: Vec<Value> = names(&release.out)?
        .into_iter()
        .filter(|name| name != FILE && name != CHECKSUMS)
        .map(|name| Ok(json!({"name": name, "digest": {"sha256": sha256(&release.out.join(&name))?}})))
        .collect::<anyhow::Result<_>>()?;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": command(std::env::args().skip(1)), "version": VERSION},
                "internalParameters": {"rustc": version_of("rustc")?, "cargo": version_of("cargo")?},
                "resolvedDependencies": dependencies(release)?,
            },
            "runDetails": {
                "builder": {"id": builder()},
                "metadata": {"startedOn": started, "finishedOn": now()?},
            },
        },
    });
    let text = serde_json::to_string_pretty(&statement)? + "\n";
    fs::write(release.out.join(FILE), text).with_context(|| format!("cannot write `{FILE}`"))
}

/// The command as it is typed, without folders of the machine.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let words = arguments.map(|word| word.rsplit('/').next().unwrap_or_default().to_owned());
    ["cargo".to_owned(), "xtask".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The run of a workflow, or the developer's machine without its name.
fn builder() -> String {
    let parts: Option<Vec<String>> = RUN.iter().map(|name| std::env::var(name).ok()).collect();
    match parts.as_deref() {
        Some([server, repository, run]) => format!("{server}/{repository}/actions/runs/{run}"),
        _ => "urn:gymkhana:local-machine".to_owned(),
    }
}

fn version_of(program: &str) -> anyhow::Result<String> {
    output_of(Command::new(program).arg("--version")).with_context(|| format!("`{program} --version` failed"))
}

/// The commit, whether its tree was changed, the locks, and libtorch's wheels.
fn dependencies(release: &Release<'_>) -> anyhow::Result<Vec<Value>> {
    let root = &release.workspace.root;
    let mut git = Command::new("git");
    let changes = output_of(git.args(["status", "--porcelain"]).current_dir(root)).context("`git status` failed")?;
    let mut found = vec![json!({
        "name": "source",
        "digest": {"gitCommit": last_commit(release.workspace, "%H")?},
        "annotations": {"changedFiles": changes.lines().count()},
    })];
    for lock in LOCKS {
        found.push(json!({"name": lock, "digest": {"sha256": sha256(&root.join(lock))?}}));
    }
    found.extend(libtorch::wheels().map(|wheel| {
        json!({"uri": format!("pkg:pypi/{}@{}", wheel.name, wheel.version), "digest": {"sha256": wheel.sha256}})
    }));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_no_folder_of_the_machine() {
        let words = ["dist", "--programs", "/home/me/target/release"].map(str::to_owned);
        assert_eq!(command(words.into_iter()), "cargo xtask dist --programs release");
    }
}
