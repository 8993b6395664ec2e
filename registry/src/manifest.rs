//! The manifest that a plugin carries: who it is and what it wants, read before anything is compiled.
//!
//! It stands in the custom section `gymkhana:manifest`, exactly once in the whole component, usually in a core module
//! nested in it: `GYMK`, the length of the JSON as four little-endian bytes, the JSON. The length is there because
//! linkers may pad or join sections of one name: what is joined is seen and refused.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::component::Scan;
use crate::{Capability, ComponentError, Digest, Kind, ParseNameError, PluginName, contract};

/// The name of the custom section.
pub const MANIFEST_SECTION: &str = "gymkhana:manifest";

/// The section's first bytes.
pub const MANIFEST_MAGIC: [u8; 4] = *b"GYMK";

/// The number of the manifest's shape that this crate reads.
pub const MANIFEST_SCHEMA: u32 = 1;

/// The contract that a plugin was built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractStamp {
    /// The version of the WIT package.
    pub version: Version,
    /// The digest of its files, as [`contract::digest`] computes it.
    pub digest: Digest,
}

impl ContractStamp {
    /// What this host speaks.
    #[must_use]
    pub fn of_this_host() -> Self {
        Self { version: contract::VERSION, digest: contract::digest() }
    }
}

/// The smallest and the largest total that a reward may return.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct RewardRange {
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl From<(f64, f64)> for RewardRange {
    fn from((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}

impl From<RewardRange> for (f64, f64) {
    fn from(range: RewardRange) -> Self {
        (range.low, range.high)
    }
}

/// What a plugin says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ManifestJson", into = "ManifestJson")]
pub struct Manifest {
    /// Its name.
    pub name: PluginName,
    /// Its version.
    pub version: Version,
    /// What it offers; never empty.
    pub kinds: BTreeSet<Kind>,
    /// The contract that it was built with.
    pub contract: ContractStamp,
    /// Its licence, as an SPDX expression.
    pub license: String,
    /// One line for people.
    pub description: String,
    /// What it wants from the host.
    pub capabilities: BTreeSet<Capability>,
    /// Those of them without which it runs, too; where a run grants one not, asking for it is denied.
    pub optional: BTreeSet<Capability>,
    /// Whether equal inputs give equal outputs, always.
    pub deterministic: bool,
    /// The range of its totals, if it is a reward and says so.
    pub reward_range: Option<RewardRange>,
}

/// A plugin was built with another contract than this host's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// Another version.
    #[error(
        "plugin `{name}` was built for contract {found} and this host speaks {}; rebuild it with gymkhana-sdk {}",
        contract::VERSION,
        contract::VERSION
    )]
    Version {
        /// The plugin.
        name: PluginName,
        /// The version that it was built with.
        found: Version,
    },
    /// The same version, but other files: the contract is unreleased and still changes.
    #[error(
        "plugin `{name}` was built with another text of contract {} (its digest begins {:.12}, this host's {:.12}); \
         rebuild it with this repository's SDK",
        contract::VERSION, found.to_string(), contract::digest().to_string()
    )]
    Digest {
        /// The plugin.
        name: PluginName,
        /// The digest that it was built with.
        found: Digest,
    },
}

/// A file holds no manifest that can be read. The caller says which file.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file is no component.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// No manifest section.
    #[error("the component has no manifest; build it with gymkhana-sdk, whose `plugin!` macro writes one")]
    Missing,
    /// More than one manifest section.
    #[error("the component has {0} manifests; link exactly one crate that uses the `plugin!` macro into it")]
    Several(usize),
    /// The section is framed wrongly.
    #[error("the manifest section is damaged: {0}; build the plugin again with gymkhana-sdk")]
    Frame(&'static str),
    /// The manifest's shape is newer than this crate.
    #[error(
        "the manifest has schema {0} and this host reads {MANIFEST_SCHEMA}; use a newer host or an older gymkhana-sdk"
    )]
    Schema(u64),
    /// The JSON is not what a manifest must be.
    #[error(
        "the manifest is invalid; correct it in the plugin's Cargo.toml, pyproject.toml or package.json and build it again"
    )]
    Invalid(#[source] serde_json::Error),
    /// The manifest promises another kind than the component exports.
    #[error(
        "the manifest and the component disagree on whether this plugin is of kind `{kind}`: {found}; build it again with gymkhana-sdk"
    )]
    Kind {
        /// The kind.
        kind: Kind,
        /// What each of them says.
        found: &'static str,
    },
}

/// The manifest as JSON holds it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ManifestJson {
    schema: u32,
    namespace: String,
    name: String,
    version: Version,
    kinds: BTreeSet<Kind>,
    contract: ContractStamp,
    license: String,
    description: String,
    capabilities: BTreeSet<Capability>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    optional: BTreeSet<Capability>,
    deterministic: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reward_range: Option<RewardRange>,
}

/// What JSON may hold and a manifest may not.
#[derive(Debug, thiserror::Error)]
enum ShapeError {
    #[error(transparent)]
    Name(#[from] ParseNameError),
    #[error("`{key}` has more than {most} bytes; say it in fewer")]
    Long { key: &'static str, most: usize },
    #[error("`optional` has `{0}`, and `capabilities` has not; ask for it there too")]
    NotAsked(Capability),
    #[error("`kinds` is empty; name at least one of environment, tool and reward")]
    NoKind,
    #[error("`reward-range` goes from {low} to {high}; put the smaller number first")]
    Range { low: f64, high: f64 },
}

impl TryFrom<ManifestJson> for Manifest {
    type Error = ShapeError;

    fn try_from(json: ManifestJson) -> Result<Self, Self::Error> {
        if json.kinds.is_empty() {
            return Err(ShapeError::NoKind);
        }
        for (key, text, most) in [("license", &json.license, 200), ("description", &json.description, 1000)] {
            if text.len() > most {
                return Err(ShapeError::Long { key, most });
            }
        }
        if let Some(unasked) = json.optional.difference(&json.capabilities).next() {
            return Err(ShapeError::NotAsked(*unasked));
        }
        if let Some(RewardRange { low, high }) = json.reward_range
            && low > high
        {
            return Err(ShapeError::Range { low, high });
        }
        Ok(Self {
            name: PluginName::new(&json.namespace, &json.name)?,
            version: json.version,
            kinds: json.kinds,
            contract: json.contract,
            license: json.license,
            description: json.description,
            capabilities: json.capabilities,
            optional: json.optional,
            deterministic: json.deterministic,
            reward_range: json.reward_range,
        })
    }
}

impl From<Manifest> for ManifestJson {
    fn from(manifest: Manifest) -> Self {
        Self {
            schema: MANIFEST_SCHEMA,
            namespace: manifest.name.namespace().to_owned(),
            name: manifest.name.name().to_owned(),
            version: manifest.version,
            kinds: manifest.kinds,
            contract: manifest.contract,
            license: manifest.license,
            description: manifest.description,
            capabilities: manifest.capabilities,
            optional: manifest.optional,
            deterministic: manifest.deterministic,
            reward_range: manifest.reward_range,
        }
    }
}

impl Manifest {
    /// Whether this host speaks the plugin's contract.
    ///
    /// # Errors
    /// If the plugin was built with another version or another text of the contract: it must be rebuilt.
    pub fn check_contract(&self) -> Result<(), ContractError> {
        if self.contract.version != contract::VERSION {
            return Err(ContractError::Version { name: self.name.clone(), found: self.contract.version.clone() });
        }
        if self.contract.digest != contract::digest() {
            return Err(ContractError::Digest { name: self.name.clone(), found: self.contract.digest });
        }
        Ok(())
    }
}

/// Reads the manifest of a `.wasm` file without compiling it.
///
/// The contract's version is not judged here, so that a plugin for another host can still be inspected: see
/// [`Manifest::check_contract`]. A file that was cut exactly between two sections is itself a component, and may have
/// lost exports of optional interfaces alone: only a digest, such as a lock file's, tells.
///
/// # Errors
/// If the bytes are no component, if there is not exactly one manifest in it, if that is damaged or of another
/// schema, or if it promises another kind than the component exports.
pub fn read_manifest(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let scan = Scan::of(bytes)?;
    let section = match scan.manifests[..] {
        [] => return Err(ManifestError::Missing),
        [section] => section,
        [..] => return Err(ManifestError::Several(scan.manifests.len())),
    };
    let manifest = parse(unframe(section)?)?;
    for kind in Kind::ALL {
        let interface = format!("{}/{kind}@", contract::PACKAGE);
        let exported = scan.exports.iter().any(|name| name.starts_with(&interface));
        match (manifest.kinds.contains(&kind), exported) {
            (true, false) => return Err(ManifestError::Kind { kind, found: "only the manifest says so" }),
            (false, true) => return Err(ManifestError::Kind { kind, found: "only the component exports it" }),
            _ => {}
        }
    }
    Ok(manifest)
}

/// The JSON in a manifest section.
fn unframe(section: &[u8]) -> Result<&[u8], ManifestError> {
    let rest = section.strip_prefix(&MANIFEST_MAGIC).ok_or(ManifestError::Frame("it does not begin with `GYMK`"))?;
    let (length, json) = rest.split_first_chunk().ok_or(ManifestError::Frame("it ends before its length"))?;
    if u32::from_le_bytes(*length) as usize == json.len() {
        Ok(json)
    } else {
        Err(ManifestError::Frame("its length is not the one that it states"))
    }
}

/// Reads the schema number by itself first: a newer manifest may have any other shape.
fn parse(json: &[u8]) -> Result<Manifest, ManifestError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u64,
    }
    let Schema { schema } = serde_json::from_slice(json).map_err(ManifestError::Invalid)?;
    if schema != u64::from(MANIFEST_SCHEMA) {
        return Err(ManifestError::Schema(schema));
    }
    serde_json::from_slice(json).map_err(ManifestError::Invalid)
}
