//! A registry created by the code under test from hand-made components and fixed keys.
#![allow(dead_code, reason = "each test file uses some of these")]

use std::io::Write;
use std::path::Path;

use gymkhana_registry::{
    Authority, Check, CheckOutcome, FolderError, IndexRow, PluginName, PublicKey, REPORT_SCHEMA, RegistryFolder,
    Release, Report, SUITE, SecretKey, contract, read_manifest, suite_checks,
};

use super::plugins::{component, export, import, manifest_section, nested_module};

/// A day, in seconds.
pub const DAY: u64 = 24 * 3600;
/// Creation time of the test registries, in seconds since 1970.
pub const NOW: u64 = 1_800_000_000;

/// Key with 32 equal seed bytes.
pub fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

/// Root key of the test registries.
pub fn root() -> SecretKey {
    key(1)
}

/// Key of namespace `acme`.
pub fn acme() -> SecretKey {
    key(2)
}

/// Parses a plugin name.
pub fn name(text: &str) -> PluginName {
    text.parse().expect("a name")
}

/// Parameters of a component; the default is the tool `acme/adder`.
#[derive(Clone)]
pub struct Made {
    pub name: &'static str,
    pub version: &'static str,
    pub capabilities: &'static [&'static str],
    pub exports: &'static [&'static str],
    pub contract: String,
    pub description: &'static str,
    /// Size of an additional custom section in bytes.
    pub padding: usize,
}

impl Made {
    pub fn version(version: &'static str) -> Self {
        let contract = contract::digest().to_string();
        let exports = &["tool"];
        Self {
            name: "acme/adder",
            version,
            capabilities: &["log"],
            exports,
            contract,
            description: "Adds numbers.",
            padding: 0,
        }
    }

    pub fn of(name: &'static str, version: &'static str) -> Self {
        Self { name, ..Self::version(version) }
    }

    /// Bytes of the component.
    pub fn component(&self) -> Vec<u8> {
        let Self { name, version, contract, .. } = self;
        let description = serde_json::to_string(self.description).expect("JSON");
        let (namespace, short) = name.split_once('/').expect("a full name");
        let capabilities = serde_json::to_string(self.capabilities).expect("JSON");
        let kinds: Vec<&str> =
            self.exports.iter().copied().filter(|kind| ["tool", "environment", "reward"].contains(kind)).collect();
        let kinds = serde_json::to_string(&kinds).expect("JSON");
        let json = format!(
            r#"{{"schema":1,"namespace":"{namespace}","name":"{short}","version":"{version}","kinds":{kinds},"contract":{{"version":"0.2.0","digest":"{contract}"}},"license":"Apache-2.0","description":{description},"capabilities":{capabilities},"deterministic":true}}"#
        );
        let mut sections = vec![import("gymkhana:plugin/log@0.2.0"), nested_module(&manifest_section(&json))];
        sections.extend(self.exports.iter().map(|kind| export(&format!("gymkhana:plugin/{kind}@0.2.0"))));
        sections.push(super::plugins::custom("padding", &vec![7; self.padding]));
        component(&sections)
    }

    /// Report in which every check passed.
    pub fn report(&self) -> Report {
        report(&self.component())
    }

    /// Unsigned release with that report.
    pub fn release(&self) -> Release {
        Release::of(&self.component(), Some(self.report())).expect("a plugin")
    }

    /// Release file signed by `acme`'s key.
    pub fn signed(&self) -> String {
        self.release().sign(Some(&acme())).expect("JSON")
    }
}

/// Report about a component in which every check passed.
pub fn report(component: &[u8]) -> Report {
    let manifest = read_manifest(component).expect("a plugin");
    let passed = |name: &str| Check {
        name: name.to_owned(),
        outcome: CheckOutcome::Passed("20 steps".to_owned()),
        same_cause_as: None,
    };
    Report {
        schema: REPORT_SCHEMA,
        suite: SUITE,
        name: manifest.name,
        version: manifest.version,
        digest: gymkhana_registry::Digest::of(component),
        contract: manifest.contract,
        seed: 0,
        actions: 1000,
        most_fuel: 1_000_000_000,
        most_memory: 64 << 20,
        thinned: false,
        steps: 1000,
        checks: suite_checks().map(passed).collect(),
    }
}

/// Authority of a root key at [`NOW`], valid for one day.
pub fn by(root: &SecretKey) -> Authority<'_> {
    Authority { root: Some(root), lifetime: DAY, now: NOW }
}

/// Creates an empty registry with namespace `acme`.
pub fn registry(folder: &Path) -> RegistryFolder {
    registry_by(folder, by(&root()))
}

/// Creates an empty registry with namespace `acme` under an authority.
pub fn registry_by(folder: &Path, authority: Authority<'_>) -> RegistryFolder {
    let registry = RegistryFolder::create(folder, authority).expect("a new registry");
    registry.grant(&"acme".parse().expect("a namespace"), acme().public(), authority).expect("granted");
    registry
}

/// Adds a component and its release file.
pub fn add_file(
    registry: &RegistryFolder,
    file: &str,
    component: &[u8],
    authority: Authority<'_>,
) -> Result<IndexRow, FolderError> {
    let mut pending = registry.content_store().create_pending().expect("a file");
    pending.file.write_all(component).expect("written");
    registry.add(file, &pending, authority)
}

/// Adds a release signed by `acme`.
pub fn add(registry: &RegistryFolder, made: &Made) -> Result<IndexRow, FolderError> {
    add_file(registry, &made.signed(), &made.component(), by(&root()))
}

/// Root key that clients pin.
pub fn pinned() -> PublicKey {
    root().public()
}

/// Text of an error and all its causes.
pub fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}
