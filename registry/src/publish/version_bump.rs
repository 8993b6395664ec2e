//! Semantic-version increments between two versions.

use std::fmt;

use semver::{Prerelease, Version};

/// Kind of version increment. Before 1.0 a minor increment is breaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionBump {
    /// Bug fixes only.
    Patch,
    /// Backward-compatible additions.
    Addition,
    /// Incompatible changes.
    Breaking,
}

impl VersionBump {
    /// Increment from one version to a later one.
    #[must_use]
    pub fn between(old: &Version, new: &Version) -> Self {
        // Pre-releases carry no compatibility promise.
        if old.major != new.major || !old.pre.is_empty() {
            Self::Breaking
        } else if old.minor != new.minor {
            if new.major == 0 { Self::Breaking } else { Self::Addition }
        } else {
            Self::Patch
        }
    }

    /// Smallest version after `old` with this increment.
    #[must_use]
    pub fn after(self, old: &Version) -> Version {
        let (major, minor, patch) = (old.major, old.minor, old.patch);
        let next = match self {
            Self::Patch => Version::new(major, minor, patch + 1),
            Self::Breaking if major > 0 => Version::new(major + 1, 0, 0),
            Self::Addition | Self::Breaking => Version::new(major, minor + 1, 0),
        };
        Version { pre: Prerelease::EMPTY, ..next }
    }
}

impl fmt::Display for VersionBump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Patch => "a patch",
            Self::Addition => "a minor",
            Self::Breaking => "a breaking",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn increments_follow_cargo() {
        for (old, new, bump) in [
            ("1.2.3", "1.2.4", VersionBump::Patch),
            ("1.2.3", "1.3.0", VersionBump::Addition),
            ("1.2.3", "2.0.0", VersionBump::Breaking),
            ("0.2.3", "0.2.4", VersionBump::Patch),
            ("0.2.3", "0.3.0", VersionBump::Breaking),
            ("0.2.3", "1.0.0", VersionBump::Breaking),
            ("1.0.0-rc.1", "1.0.0", VersionBump::Breaking),
        ] {
            assert_eq!(VersionBump::between(&version(old), &version(new)), bump, "{old} to {new}");
        }
    }

    #[test]
    fn proposed_version_is_minimal() {
        for (bump, old, next) in [
            (VersionBump::Patch, "1.2.3", "1.2.4"),
            (VersionBump::Addition, "1.2.3", "1.3.0"),
            (VersionBump::Addition, "0.2.3", "0.3.0"),
            (VersionBump::Breaking, "0.2.3", "0.3.0"),
            (VersionBump::Breaking, "1.2.3", "2.0.0"),
        ] {
            assert_eq!(bump.after(&version(old)), version(next), "{old}");
            assert!(VersionBump::between(&version(old), &version(next)) >= bump);
        }
    }
}
