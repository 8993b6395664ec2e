//! Lock files of Python and npm packages: every package has one version and a hash.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::report;
use crate::step::step;
use crate::workspace::Workspace;

/// Locks of Python packages, each with the files of its direct requirements.
const PYTHON: [(&str, &[&str]); 25] = [
    ("plugins/requirements.txt", &["plugins/requirements.in"]),
    (
        "tests/reference/requirements.txt",
        &[
            "tests/reference/requirements.in",
            "host/store/tests/reference_requirements.in",
            "host/cli/tests/reference_requirements.in",
        ],
    ),
    ("xtask/requirements/adapters.txt", &["xtask/requirements/adapters.in"]),
    ("xtask/requirements/dist.txt", &["xtask/requirements/dist.in"]),
    ("xtask/requirements/endpoints.txt", &["xtask/requirements/endpoints.in"]),
    ("xtask/requirements/baselines.txt", &["xtask/requirements/baselines.in"]),
    ("xtask/requirements/chat.txt", &["xtask/requirements/chat.in"]),
    ("xtask/requirements/clients.txt", &["xtask/requirements/clients.in"]),
    ("xtask/requirements/frameworks.txt", &["xtask/requirements/frameworks.in"]),
    ("xtask/requirements/ipykernel.txt", &["xtask/requirements/ipykernel.in"]),
    ("xtask/requirements/kubernetes.txt", &["xtask/requirements/kubernetes.in"]),
    ("xtask/requirements/mcp.txt", &["xtask/requirements/mcp.in"]),
    ("xtask/requirements/package.txt", &["xtask/requirements/package.in"]),
    ("xtask/requirements/packages.txt", &["xtask/requirements/packages.in"]),
    ("xtask/requirements/pdoc.txt", &["xtask/requirements/pdoc.in"]),
    ("xtask/requirements/python-bench.txt", &["xtask/requirements/python-bench.in"]),
    ("xtask/requirements/python.txt", &["xtask/requirements/python.in"]),
    ("xtask/requirements/rllm.txt", &["xtask/requirements/rllm.in"]),
    ("xtask/requirements/services.txt", &["xtask/requirements/services.in"]),
    ("xtask/requirements/smollm2.txt", &["xtask/requirements/smollm2.in"]),
    ("xtask/requirements/tinker.txt", &["xtask/requirements/tinker.in"]),
    ("xtask/requirements/traces.txt", &["xtask/requirements/traces.in"]),
    ("xtask/requirements/vllm.txt", &["xtask/requirements/vllm.in"]),
    ("xtask/requirements/wheel.txt", &["xtask/requirements/wheel.in"]),
    ("xtask/requirements/zig.txt", &["xtask/requirements/zig.in"]),
];

/// Locks of npm packages.
const NPM: [&str; 5] = [
    "host/page/tests/browser/package-lock.json",
    "sdk/js/package-lock.json",
    "xtask/clients-npm/package-lock.json",
    "xtask/npm/package-lock.json",
    "xtask/npm-mcp/package-lock.json",
];

/// Fails on packages without a hash, and on direct requirements that their lock does not contain.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("locks", || {
        let mut findings = Vec::new();
        for (lock, direct) in PYTHON {
            let (locked, unlocked) = python_packages(&read(&workspace.root, lock)?);
            findings.extend(unlocked.iter().map(|line| format!("{lock}: `{line}` lacks `==VERSION` or a hash")));
            for file in direct {
                let missing = missing(&read(&workspace.root, file)?, &locked);
                findings.extend(missing.iter().map(|line| format!("{file}: `{line}` is not in {lock}")));
            }
        }
        for lock in NPM {
            let text = read(&workspace.root, lock)?;
            let json: Value = serde_json::from_str(&text).with_context(|| format!("`{lock}` is not JSON"))?;
            findings.extend(npm_without_hash(&json).iter().map(|name| format!("{lock}: `{name}` lacks a hash")));
        }
        report(&findings, "locks", "update the lock as CONTRIBUTING.md describes")
    })
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read `{file}`"))
}

/// Versions by name, and the requirements that have no exact version or no hash.
fn python_packages(lock: &str) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let (mut locked, mut unlocked) = (BTreeMap::<String, Vec<String>>::new(), Vec::new());
    for line in requirements(&lock.replace("\\\n", " ")) {
        match pin(&line).filter(|_| line.contains(" --hash=sha256:")) {
            Some((name, version)) => locked.entry(name).or_default().push(version),
            None => unlocked.push(line),
        }
    }
    (locked, unlocked)
}

/// Direct requirements whose exact version is not locked.
fn missing(direct: &str, locked: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let is_locked = |line: &str| {
        pin(line).is_some_and(|(name, version)| locked.get(&name).is_some_and(|versions| versions.contains(&version)))
    };
    requirements(direct).into_iter().filter(|line| !is_locked(line)).collect()
}

/// Lines without comments and empty lines.
fn requirements(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Name and version of `NAME==VERSION`, which a marker or hashes may follow. Names are compared as Python's index
/// does: without regard to case, `_` and `.` like `-`, and without extras in brackets.
fn pin(line: &str) -> Option<(String, String)> {
    let first = line.split([' ', ';']).next()?;
    let (name, version) = first.split_once("==")?;
    let name = name.split('[').next()?;
    Some((name.to_lowercase().replace(['_', '.'], "-"), version.to_owned()))
}

/// Packages of an npm lock without a hash; the entry with an empty path is the locked project itself.
fn npm_without_hash(lock: &Value) -> Vec<String> {
    let packages = lock["packages"].as_object().into_iter().flatten().filter(|(path, _)| !path.is_empty());
    let has_hash = |package: &Value| package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-"));
    packages.filter(|(_, package)| !has_hash(package)).map(|(path, _)| path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_python_package_without_hash_or_version_is_found() {
        let lock = "# comment\na-b==1.0 ; os_name == 'nt' \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\nc==2\n\
                    d>=3 \\\n    --hash=sha256:02\n";
        let (locked, unlocked) = python_packages(lock);
        assert_eq!(locked.keys().collect::<Vec<_>>(), ["a-b"]);
        assert_eq!(unlocked.len(), 2, "{unlocked:?}");
        assert!(unlocked[0].starts_with("c==2") && unlocked[1].starts_with("d>=3"), "{unlocked:?}");
        assert_eq!(missing("A_b==1.0\na-b[more]==1.0\n", &locked), Vec::<String>::new());
        assert_eq!(missing("# comment\na-b==1.1\ne==1\n", &locked), ["a-b==1.1", "e==1"]);
    }

    #[test]
    fn an_npm_package_without_hash_is_found() {
        let lock = json!({"packages": {
            "": {"name": "ours"},
            "node_modules/a": {"version": "1.0.0", "integrity": "sha512-AA=="},
            "node_modules/b": {"version": "1.0.0"},
            "node_modules/c": {"version": "1.0.0", "integrity": "sha1-AA=="},
        }});
        assert_eq!(npm_without_hash(&lock), ["node_modules/b", "node_modules/c"]);
    }
}
