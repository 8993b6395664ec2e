//! The list of components in CycloneDX's form, version 1.6: crates of the programs, of the Python package and of the
//! plugins, libtorch's packages, and Python's parts of a plugin.
//!
//! The graph is that of `cargo metadata`, whose features are those of the whole workspace: a crate may be listed that a
//! program leaves out, and none is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use toml_edit::DocumentMut;

use super::{Release, VERSION, last_commit};
use crate::setup::libtorch;
use crate::setup::registry::is_first_party;
use crate::step::{cargo, note};

/// Packages whose crates the programs and the native module of the Python package contain.
const PROGRAMS: [&str; 2] = ["gymkhana-cli", "gymkhana-python"];

/// System of the programs, and that of the plugins.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "wasm32-wasip2"];

/// Python packages of which the plugin in Python contains parts: the compiler brings CPython.
const OF_PYTHON_PLUGIN: [&str; 3] = ["componentize-py", "mpmath", "sympy"];

/// The release itself, in the list.
const ROOT: &str = "gymkhana";

/// A part of the release.
#[derive(Debug, Default, PartialEq)]
struct Component {
    name: String,
    version: String,
    /// Address in the form of package URLs; unpublished crates have none.
    purl: Option<String>,
    /// SPDX expression.
    license: Option<String>,
    sha256: Option<String>,
    /// References of its direct parts.
    parts: BTreeSet<String>,
}

/// Components by their references in the document.
type Components = BTreeMap<String, Component>;

/// Digests of crates by name and version.
type Checksums = BTreeMap<(String, String), String>;

/// Writes the document and returns its path.
pub fn write(release: &Release<'_>) -> anyhow::Result<PathBuf> {
    let workspace = release.workspace;
    let read =
        |name: &str| fs::read_to_string(workspace.root.join(name)).with_context(|| format!("cannot read `{name}`"));
    let checksums = checksums(&read("Cargo.lock")?)?;
    let plugins = workspace.packages.iter().filter(|package| is_first_party(&package.folder));
    let plugins: Vec<&str> = plugins.map(|package| package.name.as_str()).collect();
    let mut components = Components::new();
    for (target, roots) in TARGETS.into_iter().zip([&PROGRAMS[..], &plugins]) {
        let found = add_crates(&metadata(release, target)?, roots, &checksums, &mut components);
        ensure!(found.is_some(), "`cargo metadata` has an unknown form");
    }
    for package in libtorch::wheels() {
        components.insert(
            python_purl(package.name, package.version),
            Component { sha256: Some(package.sha256.to_owned()), ..python(package.name, package.version) },
        );
    }
    for (name, version) in bundled(&read("plugins/requirements.txt")?) {
        components.insert(python_purl(name, version), python(name, version));
    }
    note(&format!("{} components", components.len()));
    let path = release.out.join(format!("gymkhana-{VERSION}.cdx.json"));
    let document = document(&components, &last_commit(workspace, "%cI")?);
    fs::write(&path, serde_json::to_string_pretty(&document)? + "\n").context("cannot write the list of components")?;
    Ok(path)
}

fn metadata(release: &Release<'_>, target: &str) -> anyhow::Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let output = command.current_dir(&release.workspace.root).output().context("cargo does not start")?;
    ensure!(output.status.success(), "`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn checksums(lock: &str) -> anyhow::Result<Checksums> {
    let lock: DocumentMut = lock.parse().context("cannot parse `Cargo.lock`")?;
    let packages = lock["package"].as_array_of_tables().context("`Cargo.lock` lists no packages")?;
    let text =
        |package: &toml_edit::Table, key: &str| package.get(key).and_then(|item| item.as_str()).map(str::to_owned);
    let with_digest = packages
        .iter()
        .filter_map(|package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?)));
    Ok(with_digest.collect())
}

/// Adds these packages and all that becomes part of them, without what only tests and build scripts use.
fn add_crates(metadata: &Value, roots: &[&str], checksums: &Checksums, components: &mut Components) -> Option<()> {
    let listed = metadata["packages"].as_array()?.iter().map(|package| Some((package["id"].as_str()?, package)));
    let packages: BTreeMap<&str, &Value> = listed.collect::<Option<_>>()?;
    let nodes = metadata["resolve"]["nodes"].as_array()?.iter().map(|node| Some((node["id"].as_str()?, node)));
    let nodes: BTreeMap<&str, &Value> = nodes.collect::<Option<_>>()?;
    let own = packages.iter().filter(|(_, package)| package["source"].is_null());
    let mut open: Vec<&str> = own
        .filter(|(_, package)| package["name"].as_str().is_some_and(|name| roots.contains(&name)))
        .map(|(id, _)| *id)
        .collect();
    let mut seen: BTreeSet<&str> = open.iter().copied().collect();
    while let Some(id) = open.pop() {
        let component = rust(packages.get(id)?, checksums)?;
        let reference = reference(packages.get(id)?)?;
        let mut parts = BTreeSet::new();
        for part in nodes.get(id)?["deps"].as_array()?.iter().filter(|part| is_linked(part)) {
            let part = part["pkg"].as_str()?;
            parts.insert(self::reference(packages.get(part)?)?);
            if seen.insert(part) {
                open.push(part);
            }
        }
        components.entry(reference).or_insert(component).parts.extend(parts);
    }
    Some(())
}

/// Whether a dependency is a normal one.
fn is_linked(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

fn reference(package: &Value) -> Option<String> {
    Some(format!("pkg:cargo/{}@{}", package["name"].as_str()?, package["version"].as_str()?))
}

fn rust(package: &Value, checksums: &Checksums) -> Option<Component> {
    let (name, version) = (package["name"].as_str()?.to_owned(), package["version"].as_str()?.to_owned());
    let is_published = !package["source"].is_null();
    Some(Component {
        purl: if is_published { Some(reference(package)?) } else { None },
        // Old manifests separate alternatives by a slash.
        license: package["license"].as_str().map(|license| license.replace('/', " OR ")),
        sha256: checksums.get(&(name.clone(), version.clone())).cloned(),
        name,
        version,
        parts: BTreeSet::new(),
    })
}

fn python(name: &str, version: &str) -> Component {
    let purl = Some(python_purl(name, version));
    Component { name: name.to_owned(), version: version.to_owned(), purl, ..Component::default() }
}

fn python_purl(name: &str, version: &str) -> String {
    format!("pkg:pypi/{name}@{version}")
}

/// Names and versions of the packages in a lock that a plugin contains.
fn bundled(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = lock.lines().filter_map(|line| line.trim_end_matches([' ', '\\']).split_once("=="));
    lines.filter(|(name, _)| OF_PYTHON_PLUGIN.contains(name))
}

fn document(components: &Components, time: &str) -> Value {
    let parts: BTreeSet<&String> = components.values().flat_map(|component| &component.parts).collect();
    let tops: Vec<&String> = components.keys().filter(|reference| !parts.contains(reference)).collect();
    let graph = components.iter().map(|(reference, component)| json!({"ref": reference, "dependsOn": component.parts}));
    let root = json!({"ref": ROOT, "dependsOn": tops});
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {"type": "application", "bom-ref": ROOT, "name": "gymkhana", "version": VERSION},
        },
        "components": components.iter().map(|(reference, component)| entry(reference, component)).collect::<Vec<_>>(),
        "dependencies": std::iter::once(root).chain(graph).collect::<Vec<_>>(),
    })
}

fn entry(reference: &str, component: &Component) -> Value {
    let mut entry = json!({
        "type": "library", "bom-ref": reference, "name": component.name, "version": component.version,
    });
    if let Some(purl) = &component.purl {
        entry["purl"] = json!(purl);
    }
    if let Some(license) = &component.license {
        entry["licenses"] = json!([{"expression": license}]);
    }
    if let Some(digest) = &component.sha256 {
        entry["hashes"] = json!([{"alg": "SHA-256", "content": digest}]);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nsource = \"registry\"\nchecksum = \
                        \"ab\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";

    fn metadata() -> Value {
        let package = |name: &str, version: &str, source: Option<&str>| json!({"id": name, "name": name, "version": version, "source": source, "license": "MIT/Apache-2.0"});
        let dependency = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [
                package("own", "0.1.0", None), package("other", "0.1.0", None), package("used", "1.0.0", Some("registry")),
                package("test", "1.0.0", Some("registry")), package("below", "2.0.0", Some("registry")),
            ],
            "resolve": {"nodes": [
                {"id": "own", "deps": [dependency("used", None), dependency("test", Some("dev"))]},
                {"id": "other", "deps": [dependency("test", None)]},
                {"id": "used", "deps": [dependency("below", None), dependency("test", Some("build"))]},
                {"id": "below", "deps": []}, {"id": "test", "deps": []},
            ]},
        })
    }

    #[test]
    fn only_linked_crates_are_listed_with_digest_licence_and_parts() {
        let mut components = Components::new();
        add_crates(&metadata(), &["own"], &checksums(LOCK).expect("parsed"), &mut components).expect("understood");
        let references: Vec<&str> = components.keys().map(String::as_str).collect();
        assert_eq!(references, ["pkg:cargo/below@2.0.0", "pkg:cargo/own@0.1.0", "pkg:cargo/used@1.0.0"]);
        let used = &components["pkg:cargo/used@1.0.0"];
        assert_eq!(used.sha256.as_deref(), Some("ab"));
        assert_eq!(used.license.as_deref(), Some("MIT OR Apache-2.0"));
        assert!(used.parts.contains("pkg:cargo/below@2.0.0") && used.parts.len() == 1);
        assert_eq!(components["pkg:cargo/own@0.1.0"].purl, None, "it is not published");
        let document = document(&components, "2026-01-02T03:04:05Z");
        assert_eq!(document["dependencies"][0], json!({"ref": "gymkhana", "dependsOn": ["pkg:cargo/own@0.1.0"]}));
        assert!(add_crates(&json!({}), &["own"], &Checksums::new(), &mut components).is_none());
    }

    #[test]
    fn packages_of_the_plugin_in_python_have_the_locks_versions() {
        let lock = "mpmath==1.3.0 \\\n    --hash=sha256:00\nnodejs-wheel==22.20.0 \\\n    --hash=sha256:00\n";
        assert_eq!(bundled(lock).collect::<Vec<_>>(), [("mpmath", "1.3.0")]);
    }
}
