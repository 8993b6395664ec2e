//! Publishing rules, as functions of a release and the registry's current content.
//!
//! Client and server apply the same rules; the server does not rely on the client.

mod confusable;
mod suite;
mod version_bump;

use std::collections::BTreeSet;

use semver::Version;

pub use confusable::{is_confusable, is_confusable_namespace};
pub use suite::{MAX_REPORT_FUEL, MAX_REPORT_MEMORY, MIN_REPORT_ACTIONS, suite_checks};
pub use version_bump::VersionBump;

use crate::{Capability, IndexRow, Namespace, PluginName, Release};

/// A release violates a publishing rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleViolation {
    /// The version exists.
    #[error("`{name}` {version} is already published: releases are immutable\nhint: increment the version")]
    Exists {
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
    },
    /// A quick build, which imports its author's files at the first call.
    #[error(
        "`{0}` is a quick build, which cannot be published\nhint: publish the plugin's folder, or what `host plugin build` writes"
    )]
    Quick(PluginName),
    /// The version increment is too small for the change.
    #[error(transparent)]
    Bump(Box<TooSmallBump>),
    /// The name is confusable with a plugin of another publisher.
    #[error(
        "the name `{name}` is too similar to `{other}` of another publisher\nhint: choose a name that cannot be confused \
         with it"
    )]
    Confusable {
        /// Plugin.
        name: PluginName,
        /// Existing plugin.
        other: PluginName,
    },
    /// Missing conformance report.
    #[error("`{name}` {version} has no conformance report\nhint: run `host plugin test` and publish with its report")]
    NoReport {
        /// Plugin.
        name: PluginName,
        /// Version.
        version: Version,
    },
    /// The report is for another component or suite, is incomplete, or was made with insufficient settings.
    #[error("invalid conformance report: it {0}\nhint: run `host plugin test` again on the published component")]
    InvalidReport(String),
    /// The suite skipped a check that applies to this plugin.
    #[error(
        "the conformance suite skipped the required check `{check}`: {why}\nhint: run `host plugin test --json` with the \
         missing options and publish with its report"
    )]
    Skipped {
        /// Check name.
        check: String,
        /// Reason given in the report.
        why: String,
    },
    /// Failed checks.
    #[error("the conformance suite failed: {}\nhint: correct the plugin and run `host plugin test` again", listed(.0))]
    Failed(Vec<String>),
}

/// The version increment of a release is too small for its change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` {version} {change}, unlike {before}, which requires {needed} release\nhint: publish it as {proposed}, or undo \
     the change"
)]
pub struct TooSmallBump {
    /// Plugin.
    pub name: PluginName,
    /// Version.
    pub version: Version,
    /// Description of the change.
    pub change: String,
    /// Preceding version.
    pub before: Version,
    /// Required version increment.
    pub needed: VersionBump,
    /// Smallest version that satisfies the rule.
    pub proposed: Version,
}

fn listed(failures: &[String]) -> String {
    failures.join("; ")
}

/// Checks a release against the existing versions of its plugin and the other plugins of the registry.
///
/// # Errors
/// The first violated rule.
pub fn check<'a>(
    release: &Release,
    rows: &[IndexRow],
    mut others: impl Iterator<Item = &'a PluginName>,
) -> Result<(), RuleViolation> {
    let (name, version) = (&release.manifest.name, &release.manifest.version);
    if release.manifest.quick {
        return Err(RuleViolation::Quick(name.clone()));
    }
    // Versions that differ only in build metadata are equal, because a requirement cannot distinguish them.
    let same = |row: &IndexRow| version.cmp_precedence(&row.version).is_eq();
    if rows.iter().any(same) {
        return Err(RuleViolation::Exists { name: name.clone(), version: version.clone() });
    }
    if rows.is_empty()
        && let Some(other) = others.find(|other| is_confusable(name, other))
    {
        return Err(RuleViolation::Confusable { name: name.clone(), other: other.clone() });
    }
    check_version_bump(release, rows)?;
    // Last: a publisher learns the rest before the suite runs.
    suite::check_report(release)
}

/// Checks the version increment against the preceding versions. A first version is unconstrained.
fn check_version_bump(release: &Release, rows: &[IndexRow]) -> Result<(), RuleViolation> {
    let version = &release.manifest.version;
    let newest = |rows: &mut dyn Iterator<Item = &'_ IndexRow>| {
        rows.filter(|row| row.version < *version).max_by(|one, other| one.version.cmp(&other.version)).cloned()
    };
    // A release that follows a pre-release must also be compatible with the last full release.
    let released = newest(&mut rows.iter().filter(|row| row.version.pre.is_empty()));
    let newest = newest(&mut rows.iter());
    for before in [newest, released.filter(|_| version.pre.is_empty())].into_iter().flatten() {
        check_version_bump_from(&before, release)?;
    }
    Ok(())
}

fn check_version_bump_from(before: &IndexRow, release: &Release) -> Result<(), RuleViolation> {
    let (name, version) = (&release.manifest.name, &release.manifest.version);
    let bump = VersionBump::between(&before.version, version);
    for (needed, change) in changes(release, before) {
        if bump < needed {
            let proposed = needed.after(&before.version);
            let (name, version, before) = (name.clone(), version.clone(), before.version.clone());
            let too_small = TooSmallBump { name, version, change, before, needed, proposed };
            return Err(RuleViolation::Bump(Box::new(too_small)));
        }
    }
    Ok(())
}

/// Differences to the preceding version, largest first, each with the version increment that it requires.
fn changes(release: &Release, before: &IndexRow) -> Vec<(VersionBump, String)> {
    let manifest = &release.manifest;
    let mut changes = Vec::new();
    let removed: Vec<String> = before.exports.difference(&release.exports).map(|name| format!("`{name}`")).collect();
    if !removed.is_empty() {
        changes.push((VersionBump::Breaking, format!("removes the exports {}", removed.join(", "))));
    }
    let (old, new) = (&before.contract, &manifest.contract);
    if VersionBump::between(&old.version, &new.version) == VersionBump::Breaking {
        changes.push((VersionBump::Breaking, format!("implements contract {}", new.version)));
    } else if old != new {
        changes.push((VersionBump::Addition, format!("implements another revision of contract {}", new.version)));
    }
    let wider: BTreeSet<&Capability> = manifest.capabilities.difference(&before.capabilities).collect();
    if !wider.is_empty() {
        let wider: Vec<String> = wider.into_iter().map(|capability| format!("`{capability}`")).collect();
        changes.push((VersionBump::Addition, format!("requests the capabilities {}", wider.join(", "))));
    }
    let added: Vec<String> = release.exports.difference(&before.exports).map(|name| format!("`{name}`")).collect();
    if !added.is_empty() {
        changes.push((VersionBump::Addition, format!("exports {}", added.join(", "))));
    }
    changes
}

/// Checks that a new namespace is not confusable with an existing one.
///
/// # Errors
/// The existing namespace.
pub fn check_namespace<'a>(
    namespace: &Namespace,
    mut others: impl Iterator<Item = &'a Namespace>,
) -> Result<(), Namespace> {
    match others.find(|other| is_confusable_namespace(namespace, other)) {
        Some(other) => Err(other.clone()),
        None => Ok(()),
    }
}
