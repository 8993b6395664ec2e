//! Which version of a plugin is meant: by what was asked for, what is locked, and what this host can run.
//!
//! Transitive needs do not exist, since a plugin is one file: each plugin is resolved by itself, and the answer is the
//! newest version that fits.

use std::fmt;
use std::str::FromStr;

use semver::{Version, VersionReq};

use crate::name::is_word;
use crate::{Capability, ContractStamp, Digest, LockEntry, ParseNameError, PluginName, Row};

/// A plugin as it is asked for: `namespace/name@^1`, or `name@^1` where one namespace alone has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which plugin.
    pub name: WantedName,
    /// Which versions of it.
    pub versions: VersionReq,
}

/// A plugin's name with its namespace or without.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WantedName {
    /// Both halves.
    Full(PluginName),
    /// The half behind the slash.
    Short(String),
}

/// A text asks for no plugin.
#[derive(Debug, thiserror::Error)]
pub enum ParseWantedError {
    /// The half before the `@`.
    #[error(transparent)]
    Name(#[from] ParseNameError),
    /// The half behind it.
    #[error("`{text}` asks for no version: `{versions}` is none; write for instance `^1`, `~1.2` or `=1.2.3`")]
    Versions {
        /// What was written.
        text: String,
        /// Its half behind the `@`.
        versions: String,
        /// What is wrong.
        source: semver::Error,
    },
}

impl fmt::Display for WantedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(name) => write!(f, "{name}"),
            Self::Short(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.versions)
    }
}

impl FromStr for Wanted {
    type Err = ParseWantedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, versions) = text.split_once('@').unwrap_or((text, "*"));
        let parsed = VersionReq::parse(versions);
        let versions = parsed.map_err(|source| ParseWantedError::Versions {
            text: text.to_owned(),
            versions: versions.to_owned(),
            source,
        })?;
        let name = if is_word(name) { WantedName::Short(name.to_owned()) } else { WantedName::Full(name.parse()?) };
        Ok(Self { name, versions })
    }
}

/// No version fits. The caller names the plugin and its source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// None of that number.
    #[error("no version fits `{wanted}`; there are {}", listed(.known))]
    NoVersion {
        /// What was asked for.
        wanted: VersionReq,
        /// The newest versions that there are.
        known: Vec<Version>,
    },
    /// Those that fit were withdrawn.
    #[error("all versions that fit `{wanted}` were yanked by their publisher; ask for another version")]
    Yanked {
        /// What was asked for.
        wanted: VersionReq,
    },
    /// Those that fit are signed by keys that count no more.
    #[error(
        "all versions that fit `{wanted}` are signed by a key that its publisher revoked; {}, or ask the publisher to \
         publish again", still_counting(.newest.as_ref())
    )]
    Revoked {
        /// What was asked for.
        wanted: VersionReq,
        /// The newest of the others.
        newest: Option<Version>,
    },
    /// Those that fit are for other hosts.
    #[error(
        "version {newest} fits `{wanted}`, but it was built for {}, and this host speaks {}; ask its publisher to build \
         it again, or ask for another version", stamp(.built), stamp(.host)
    )]
    OtherContract {
        /// What was asked for.
        wanted: VersionReq,
        /// The newest that fits otherwise.
        newest: Version,
        /// Its contract.
        built: Box<ContractStamp>,
        /// This host's.
        host: Box<ContractStamp>,
    },
    /// The index says otherwise than the lock.
    #[error(
        "version {version} is locked with sha256 {locked:.16}…, and the registry has {found:.16}…: a release never \
         changes; keep the lock file and ask the registry's maintainer", locked = locked.to_string(), found = found.to_string()
    )]
    Changed {
        /// The version.
        version: Version,
        /// What is locked.
        locked: Digest,
        /// What is in the index.
        found: Digest,
    },
}

fn listed(known: &[Version]) -> String {
    match known {
        [] => "none".to_owned(),
        _ => known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn still_counting(newest: Option<&Version>) -> String {
    match newest {
        Some(newest) => format!("{newest} is the newest that still counts: ask for that"),
        None => "there is none that still counts: use another plugin".to_owned(),
    }
}

fn stamp(stamp: &ContractStamp) -> String {
    format!("contract {} ({:.8}…)", stamp.version, stamp.digest.to_string())
}

/// The version to use: the locked one if it fits, else the newest that fits, is not yanked, and speaks the host's
/// contract. A locked version may be yanked.
///
/// # Errors
/// If none fits; says why the best one does not.
pub fn choose<'a>(
    rows: &'a [Row],
    wanted: &VersionReq,
    locked: Option<&LockEntry>,
    host: &ContractStamp,
) -> Result<&'a Row, Unresolved> {
    if let Some(locked) = locked.filter(|locked| wanted.matches(&locked.version) && locked.contract == *host)
        && let Some(row) = rows.iter().find(|row| row.version == locked.version)
    {
        return if row.digest == locked.digest {
            Ok(row)
        } else {
            let (locked, found) = (locked.digest, row.digest);
            Err(Unresolved::Changed { version: row.version.clone(), locked, found })
        };
    }
    let fitting: Vec<&Row> = rows.iter().filter(|row| wanted.matches(&row.version)).collect();
    let newest = |rows: &mut dyn Iterator<Item = &'a Row>| rows.max_by(|one, other| one.version.cmp(&other.version));
    let wanted = wanted.clone();
    if fitting.is_empty() {
        let mut known: Vec<Version> = rows.iter().map(|row| row.version.clone()).collect();
        known.sort_by(|one, other| other.cmp(one));
        known.truncate(5);
        return Err(Unresolved::NoVersion { wanted, known });
    }
    let mut here = fitting.iter().copied().filter(|row| !row.yanked && row.contract == *host);
    if let Some(row) = newest(&mut here) {
        return Ok(row);
    }
    match newest(&mut fitting.iter().copied().filter(|row| !row.yanked)) {
        None => Err(Unresolved::Yanked { wanted }),
        Some(row) => Err(Unresolved::OtherContract {
            wanted,
            newest: row.version.clone(),
            built: Box::new(row.contract.clone()),
            host: Box::new(host.clone()),
        }),
    }
}

/// What a version asks for that nobody has agreed to; every plugin has the free capabilities without asking.
pub fn without_consent<'a>(
    asked: impl IntoIterator<Item = &'a Capability>,
    agreed: impl IntoIterator<Item = &'a Capability>,
) -> Vec<Capability> {
    let agreed: Vec<&Capability> = agreed.into_iter().collect();
    let open = |capability: &&Capability| !capability.is_free() && !agreed.contains(capability);
    asked.into_iter().filter(open).copied().collect()
}
