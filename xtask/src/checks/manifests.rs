//! Manifests of Kubernetes in `deploy/`: valid by the schemas of Kubernetes, and listed in their kustomization.
//!
//! Each time a copy of a manifest with mistakes is validated as well, since a validator that accepts everything would
//! look the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::report;
use crate::step::{execute, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Locked packages of the validator, which holds the schemas.
const PACKAGES: &str = include_str!("../../requirements/kubernetes.txt");
/// Version of Kubernetes whose schemas are used: the oldest that its authors support.
const VERSION: &str = "1.33";
/// Folder of the manifests.
const FOLDER: &str = "deploy/kubernetes";
/// List of the manifests.
const KUSTOMIZATION: &str = "kustomization.yaml";
/// Manifest of which broken copies are made, with its right and wrong texts: a wrong type, and a misspelt key.
const BROKEN: (&str, [(&str, &str); 2]) =
    ("workers.yaml", [("replicas: 2", "replicas: many"), ("readinessProbe:", "readynessProbe:")]);

/// Fails on manifests that are invalid or not listed.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("manifests: Python", || ensure_python(&workspace.root, "kubernetes", PACKAGES))?;
    step("manifests", || {
        let folder = workspace.root.join(FOLDER);
        let list = read(&folder.join(KUSTOMIZATION))?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read `{FOLDER}`"))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        report(&differences(&list, &names), FOLDER, "list each manifest in `kustomization.yaml`")?;
        let manifests = names.iter().filter(|name| *name != KUSTOMIZATION).map(|name| folder.join(name));
        execute(validator(&python).args(manifests))?;
        refuses_broken(&python, &folder, &workspace.target)
    })
}

fn validator(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "kubernetes_validate", "--strict", "--quiet", "--kubernetes-version", VERSION]);
    command
}

/// Validates broken copies of a manifest, and fails if one is accepted.
fn refuses_broken(python: &Path, folder: &Path, target: &Path) -> anyhow::Result<()> {
    let (name, mistakes) = BROKEN;
    let text = read(&folder.join(name))?;
    for (right, wrong) in mistakes {
        let broken = text.replacen(right, wrong, 1);
        let copy = target.join("manifests").join(name);
        copy.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&copy, &broken).with_context(|| format!("cannot write `{}`", copy.display()))?;
        let validated = validator(python).arg(&copy).output().context("the validator does not start")?;
        if broken == text || validated.status.success() {
            bail!("the validator accepts `{wrong}` in `{name}`\nhint: check its version and its options");
        }
    }
    Ok(())
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Findings for manifests that are not listed, and listed ones that are missing.
fn differences(list: &str, names: &[String]) -> Vec<String> {
    let entries = list.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let listed: Vec<&str> = entries.filter(|entry| entry.ends_with(".yaml")).collect();
    let unlisted = names.iter().filter(|name| *name != KUSTOMIZATION && !listed.contains(&name.as_str()));
    let missing = listed.iter().filter(|entry| !names.iter().any(|name| name == *entry));
    let mut findings: Vec<String> = unlisted.map(|name| format!("`{name}` is not in `{KUSTOMIZATION}`")).collect();
    findings.extend(missing.map(|entry| format!("`{entry}` of `{KUSTOMIZATION}` does not exist")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_not_listed_and_a_listed_one_that_is_missing_are_found() {
        let list = "resources:\n  - bus.yaml\n  - gone.yaml\nimages:\n  - name: nats\n";
        let names = ["bus.yaml", "extra.yaml", KUSTOMIZATION].map(str::to_owned);
        let expected =
            ["`extra.yaml` is not in `kustomization.yaml`", "`gone.yaml` of `kustomization.yaml` does not exist"];
        assert_eq!(differences(list, &names), expected);
        assert_eq!(differences("- bus.yaml\n", &names[..1]), Vec::<String>::new());
    }
}
