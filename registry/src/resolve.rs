//! Version resolution from a requirement, the lock file and the contract of this host.
//!
//! A plugin is one file without dependencies, so each plugin is resolved independently to the newest matching version.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use semver::{Version, VersionReq};

use crate::plugin::is_valid_word;
use crate::{Capability, ContractStamp, Digest, IndexRow, LockEntry, ParseNameError, PluginName};

/// A requested plugin: `namespace/name@^1`, or `name@^1` if the short name is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Full or short plugin name.
    pub name: RequirementName,
    /// Accepted versions.
    pub versions: VersionReq,
}

/// Plugin name with or without its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequirementName {
    /// `namespace/name`.
    Full(PluginName),
    /// Name without a namespace.
    Short(String),
}

/// Where a plugin comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginSource {
    /// A file.
    File(PathBuf),
    /// A name with versions, in a registry.
    Name(Requirement),
}

impl PluginSource {
    /// The source that a text means: a name such as `calculator@^1`, else a file. A file in the working directory cannot
    /// replace a name: paths end in `.wasm` or start with `.` or `/`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::File(PathBuf::from(text)), Self::Name)
    }
}

impl RequirementName {
    /// Name without its namespace.
    #[must_use]
    pub fn short(&self) -> &str {
        match self {
            Self::Full(name) => name.name(),
            Self::Short(name) => name,
        }
    }
}

/// The text is not a plugin requirement.
#[derive(Debug, thiserror::Error)]
pub enum ParseRequirementError {
    /// Invalid name before the `@`.
    #[error(transparent)]
    Name(#[from] ParseNameError),
    /// Invalid version requirement after the `@`.
    #[error("invalid version requirement `{versions}` in `{text}`\nhint: write for example `^1`, `~1.2` or `=1.2.3`")]
    Versions {
        /// Whole text.
        text: String,
        /// Text after the `@`.
        versions: String,
        /// Parser error.
        source: semver::Error,
    },
}

impl fmt::Display for RequirementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(name) => write!(f, "{name}"),
            Self::Short(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.versions)
    }
}

impl FromStr for Requirement {
    type Err = ParseRequirementError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, versions) = text.split_once('@').unwrap_or((text, "*"));
        let parsed = VersionReq::parse(versions);
        let versions = parsed.map_err(|source| ParseRequirementError::Versions {
            text: text.to_owned(),
            versions: versions.to_owned(),
            source,
        })?;
        let name = if is_valid_word(name) {
            RequirementName::Short(name.to_owned())
        } else {
            RequirementName::Full(name.parse()?)
        };
        Ok(Self { name, versions })
    }
}

/// Version resolution failed. The caller names the plugin and the registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No published version satisfies the requirement.
    #[error("no version matches `{required}`; published: {}\nhint: require a published version", listed(.known))]
    NoVersion {
        /// Requested versions.
        required: VersionReq,
        /// Newest published versions, at most five.
        known: Vec<Version>,
    },
    /// All matching versions are yanked.
    #[error("all versions that match `{required}` are yanked\nhint: request another version")]
    Yanked {
        /// Requested versions.
        required: VersionReq,
    },
    /// All matching versions are signed by a revoked key.
    #[error(
        "all versions that match `{required}` are signed by a revoked key\nhint: {}, or ask the publisher for a new release",
        newest_valid_hint(.newest.as_ref())
    )]
    Revoked {
        /// Requested versions.
        required: VersionReq,
        /// Newest version signed by a valid key, if any.
        newest: Option<Version>,
    },
    /// All matching versions were built for another contract.
    #[error(
        "version {newest} matches `{required}` but was built for {}; this host implements {}\nhint: request another version, \
         or ask the publisher to rebuild it",
        stamp(.built),
        stamp(.host)
    )]
    OtherContract {
        /// Requested versions.
        required: VersionReq,
        /// Newest version that matches the requirement.
        newest: Version,
        /// Contract of that version.
        built: Box<ContractStamp>,
        /// Contract of this host.
        host: Box<ContractStamp>,
    },
    /// The index and the lock file have different digests for one version.
    #[error(
        "version {version} is locked with sha256 {locked:.16}…, but the registry has {found:.16}…: releases are immutable\n\
         hint: keep the lock file and report this to the registry's maintainer",
        locked = locked.to_string(),
        found = found.to_string()
    )]
    Changed {
        /// Version.
        version: Version,
        /// Digest in the lock file.
        locked: Digest,
        /// Digest in the index.
        found: Digest,
    },
}

fn listed(known: &[Version]) -> String {
    match known {
        [] => "none".to_owned(),
        _ => known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn newest_valid_hint(newest: Option<&Version>) -> String {
    match newest {
        Some(newest) => format!("request {newest}, the newest version with a valid signature"),
        None => "use another plugin, because this one has no version with a valid signature".to_owned(),
    }
}

fn stamp(stamp: &ContractStamp) -> String {
    format!("contract {} ({:.8}…)", stamp.version, stamp.digest.to_string())
}

/// Selects a version: the locked one if it matches, otherwise the newest that matches, is not yanked and was built for
/// the host's contract. A locked version may be yanked.
///
/// # Errors
/// If no version qualifies; the error describes the closest candidate.
pub fn choose<'a>(
    rows: &'a [IndexRow],
    required: &VersionReq,
    locked: Option<&LockEntry>,
    host: &ContractStamp,
) -> Result<&'a IndexRow, ResolveError> {
    if let Some(locked) = locked.filter(|locked| required.matches(&locked.version) && locked.contract == *host)
        && let Some(row) = rows.iter().find(|row| row.version == locked.version)
    {
        return if row.digest == locked.digest {
            Ok(row)
        } else {
            let (locked, found) = (locked.digest, row.digest);
            Err(ResolveError::Changed { version: row.version.clone(), locked, found })
        };
    }
    let matching: Vec<&IndexRow> = rows.iter().filter(|row| required.matches(&row.version)).collect();
    let newest =
        |rows: &mut dyn Iterator<Item = &'a IndexRow>| rows.max_by(|one, other| one.version.cmp(&other.version));
    let required = required.clone();
    if matching.is_empty() {
        let mut known: Vec<Version> = rows.iter().map(|row| row.version.clone()).collect();
        known.sort_by(|one, other| other.cmp(one));
        known.truncate(5);
        return Err(ResolveError::NoVersion { required, known });
    }
    let mut usable = matching.iter().copied().filter(|row| !row.yanked && row.contract == *host);
    if let Some(row) = newest(&mut usable) {
        return Ok(row);
    }
    match newest(&mut matching.iter().copied().filter(|row| !row.yanked)) {
        None => Err(ResolveError::Yanked { required }),
        Some(row) => Err(ResolveError::OtherContract {
            required,
            newest: row.version.clone(),
            built: Box::new(row.contract.clone()),
            host: Box::new(host.clone()),
        }),
    }
}

/// Lists the requested capabilities that need consent and lack it. Free capabilities never need consent.
pub fn without_consent<'a>(
    requested: impl IntoIterator<Item = &'a Capability>,
    consented: impl IntoIterator<Item = &'a Capability>,
) -> Vec<Capability> {
    let consented: Vec<&Capability> = consented.into_iter().collect();
    let is_open = |capability: &&Capability| !capability.is_free() && !consented.contains(capability);
    requested.into_iter().filter(is_open).copied().collect()
}
