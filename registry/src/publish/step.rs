//! How far a version is from the one before it, as semver counts.

use std::fmt;

use semver::{Prerelease, Version};

/// What kind of release a version is. Before 1.0 the middle number is the one that may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Nothing but corrections.
    Patch,
    /// Something more, and nothing less.
    Addition,
    /// Anything.
    Breaking,
}

impl Step {
    /// The step from one version to a later one.
    #[must_use]
    pub fn between(old: &Version, new: &Version) -> Self {
        // What comes after a version that was no release yet promises nothing about it.
        if old.major != new.major || !old.pre.is_empty() {
            Self::Breaking
        } else if old.minor != new.minor {
            if new.major == 0 { Self::Breaking } else { Self::Addition }
        } else {
            Self::Patch
        }
    }

    /// The least version that is such a step from `old`.
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

impl fmt::Display for Step {
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
    fn steps_are_counted_as_cargo_counts_them() {
        for (old, new, step) in [
            ("1.2.3", "1.2.4", Step::Patch),
            ("1.2.3", "1.3.0", Step::Addition),
            ("1.2.3", "2.0.0", Step::Breaking),
            ("0.2.3", "0.2.4", Step::Patch),
            ("0.2.3", "0.3.0", Step::Breaking),
            ("0.2.3", "1.0.0", Step::Breaking),
            ("1.0.0-rc.1", "1.0.0", Step::Breaking),
        ] {
            assert_eq!(Step::between(&version(old), &version(new)), step, "{old} to {new}");
        }
    }

    #[test]
    fn the_proposed_number_is_the_least_that_does() {
        for (step, old, next) in [
            (Step::Patch, "1.2.3", "1.2.4"),
            (Step::Addition, "1.2.3", "1.3.0"),
            (Step::Addition, "0.2.3", "0.3.0"),
            (Step::Breaking, "0.2.3", "0.3.0"),
            (Step::Breaking, "1.2.3", "2.0.0"),
        ] {
            assert_eq!(step.after(&version(old)), version(next), "{old}");
            assert!(Step::between(&version(old), &version(next)) >= step);
        }
    }
}
