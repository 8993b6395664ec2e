//! The manifest embedded in a plugin, read before compilation.
//!
//! The custom section `gymkhana:manifest` occurs exactly once in a component, usually in a nested core module. Layout:
//! `GYMK`, the length of the JSON as four little-endian bytes, the JSON. The length detects sections that a linker padded
//! or joined; those are rejected.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::component::ComponentInspection;
use super::{Capability, ComponentError, Kind, ParseNameError, PluginName};
use crate::{Digest, contract};

/// Magic number at the start of the section.
pub const MANIFEST_MAGIC: [u8; 4] = *b"GYMK";

/// Manifest schema that this crate reads.
pub const MANIFEST_SCHEMA: u32 = 1;

/// Version and digest of the WIT contract that a plugin was built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractStamp {
    /// Version of the WIT package.
    pub version: Version,
    /// Digest of the WIT files, as computed by [`contract::digest`].
    pub digest: Digest,
}

impl ContractStamp {
    /// Returns the contract that this host implements.
    #[must_use]
    pub fn of_this_host() -> Self {
        Self { version: contract::VERSION, digest: contract::digest() }
    }
}

/// Inclusive range of the totals that a reward returns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct RewardRange {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
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

/// Self-description of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ManifestJson", into = "ManifestJson")]
pub struct Manifest {
    /// Full name.
    pub name: PluginName,
    /// Version.
    pub version: Version,
    /// Kinds that the plugin implements; never empty.
    pub kinds: BTreeSet<Kind>,
    /// Contract that the plugin was built with.
    pub contract: ContractStamp,
    /// Licence as an SPDX expression, at most 200 bytes.
    pub license: String,
    /// One-line description, at most 1000 bytes.
    pub description: String,
    /// Requested capabilities.
    pub capabilities: BTreeSet<Capability>,
    /// Subset of `capabilities` that the plugin can run without; calls of an ungranted one return an error.
    pub optional: BTreeSet<Capability>,
    /// True if equal inputs always give equal outputs.
    pub deterministic: bool,
    /// Range of the totals of a reward, if declared.
    pub reward_range: Option<RewardRange>,
    /// True for a reward that reads the thoughts of seats beside their messages.
    pub thoughts: bool,
    /// True for a quick build, which serves to try a plugin out and cannot be published.
    pub quick: bool,
}

/// The plugin was built with a different contract than this host implements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// Different contract version.
    #[error(
        "plugin `{name}` was built for contract {found}, but this host implements {}\nhint: rebuild it with the SDK of this \
         host's release",
        contract::VERSION
    )]
    Version {
        /// Plugin.
        name: PluginName,
        /// Contract version of the plugin.
        found: Version,
    },
    /// Same version but different WIT files: the contract is unreleased and still changes.
    #[error(
        "plugin `{name}` was built with a different revision of contract {} (digest {:.12}…, this host has {:.12}…)\nhint: \
         rebuild it with the SDK of this repository",
        contract::VERSION, found.to_string(), contract::digest().to_string()
    )]
    Digest {
        /// Plugin.
        name: PluginName,
        /// Contract digest of the plugin.
        found: Digest,
    },
}

/// The manifest of a plugin file is missing or invalid. The caller names the file.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file is not a component.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// Missing manifest section.
    #[error("the component has no manifest\nhint: build it with gymkhana-sdk, whose `plugin!` macro writes one")]
    Missing,
    /// More than one manifest section.
    #[error("the component has {0} manifests\nhint: link exactly one crate that uses the `plugin!` macro")]
    Several(usize),
    /// Wrong magic number or length.
    #[error("the manifest section is damaged: {0}\nhint: rebuild the plugin with gymkhana-sdk")]
    Frame(&'static str),
    /// Unsupported manifest schema.
    #[error(
        "the manifest has schema {0}, but this host reads {MANIFEST_SCHEMA}\nhint: use a newer host or an older gymkhana-sdk"
    )]
    Schema(u64),
    /// Malformed JSON or an invalid field.
    #[error(
        "the manifest is invalid\nhint: correct the plugin's Cargo.toml, pyproject.toml or package.json and rebuild it"
    )]
    Invalid(#[source] serde_json::Error),
    /// The manifest and the exports disagree about a kind.
    #[error(
        "the manifest and the component disagree about kind `{kind}`: {found}\nhint: rebuild the plugin with gymkhana-sdk"
    )]
    Kind {
        /// Kind.
        kind: Kind,
        /// Which of the two declares it.
        found: &'static str,
    },
}

/// JSON representation of a manifest.
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    thoughts: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    quick: bool,
}

/// A field value that the JSON schema allows and a manifest does not.
#[derive(Debug, thiserror::Error)]
enum ShapeError {
    #[error(transparent)]
    Name(#[from] ParseNameError),
    #[error("`{key}` is longer than {most} bytes")]
    Long { key: &'static str, most: usize },
    #[error("`optional` lists `{0}`, which `capabilities` lacks")]
    OptionalNotRequested(Capability),
    #[error("`kinds` is empty: expected at least one of environment, tool and reward")]
    NoKind,
    #[error("`reward-range` is [{low}, {high}]: the lower bound exceeds the upper bound")]
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
        if let Some(not_requested) = json.optional.difference(&json.capabilities).next() {
            return Err(ShapeError::OptionalNotRequested(*not_requested));
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
            thoughts: json.thoughts,
            quick: json.quick,
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
            thoughts: manifest.thoughts,
            quick: manifest.quick,
        }
    }
}

impl Manifest {
    /// Checks that this host implements the plugin's contract.
    ///
    /// # Errors
    /// If the plugin was built with a different contract version or revision.
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
/// The contract version is not checked, so that plugins for other hosts can be inspected: see
/// [`Manifest::check_contract`]. A file truncated exactly between two sections is a valid component that may lack
/// optional exports; only a digest, such as the one in a lock file, detects that.
///
/// # Errors
/// If the bytes are not a component, if it does not have exactly one manifest, if the manifest is damaged or has another
/// schema, or if the manifest and the exports disagree about a kind.
pub fn read_manifest(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let inspection = ComponentInspection::of(bytes)?;
    let section = match inspection.manifests[..] {
        [] => return Err(ManifestError::Missing),
        [section] => section,
        [..] => return Err(ManifestError::Several(inspection.manifests.len())),
    };
    let manifest = parse_manifest_section(section)?;
    for kind in Kind::ALL {
        let interface = format!("{}/{kind}@", contract::PACKAGE);
        let exported = inspection.exports.iter().any(|name| name.starts_with(&interface));
        match (manifest.kinds.contains(&kind), exported) {
            (true, false) => return Err(ManifestError::Kind { kind, found: "only the manifest declares it" }),
            (false, true) => return Err(ManifestError::Kind { kind, found: "only the component exports it" }),
            _ => {}
        }
    }
    Ok(manifest)
}

/// Parses the content of a manifest section: magic number, length and JSON.
///
/// # Errors
/// If the frame is damaged, the schema is unsupported or the JSON is invalid.
pub fn parse_manifest_section(section: &[u8]) -> Result<Manifest, ManifestError> {
    parse(unframe(section)?)
}

/// Returns the JSON in a manifest section.
fn unframe(section: &[u8]) -> Result<&[u8], ManifestError> {
    let rest =
        section.strip_prefix(&MANIFEST_MAGIC).ok_or(ManifestError::Frame("the magic number `GYMK` is missing"))?;
    let (length, json) = rest.split_first_chunk().ok_or(ManifestError::Frame("the length field is truncated"))?;
    if u32::from_le_bytes(*length) as usize == json.len() {
        Ok(json)
    } else {
        Err(ManifestError::Frame("the length field does not match the section"))
    }
}

/// Reads the schema number first, because a newer manifest may have any shape.
fn parse(json: &[u8]) -> Result<Manifest, ManifestError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u64,
    }
    let Schema { schema } = serde_json::from_slice(json).map_err(invalid)?;
    if schema != u64::from(MANIFEST_SCHEMA) {
        return Err(ManifestError::Schema(schema));
    }
    serde_json::from_slice(json).map_err(invalid)
}

/// Error of an invalid manifest. The reason quotes the manifest, whose author must not be able to add lines to it, such as
/// a hint.
fn invalid(error: serde_json::Error) -> ManifestError {
    let reason = error.to_string();
    if !reason.contains(char::is_control) {
        return ManifestError::Invalid(error);
    }
    let escape = |character: char| {
        if character.is_control() { character.escape_default().to_string() } else { character.to_string() }
    };
    ManifestError::Invalid(serde::de::Error::custom(reason.chars().map(escape).collect::<String>()))
}
