//! What may be published: the rules, as functions of a release and of what is there.
//!
//! The publisher's client and the server apply the same ones; the server trusts nothing that it has not checked itself.

mod close;
mod step;
mod suite;

use std::collections::BTreeSet;

use semver::Version;

pub use close::{too_close, too_close_namespace};
pub use step::Step;
pub use suite::{LEAST_ACTIONS, MOST_FUEL, MOST_MEMORY, suite_checks};

use crate::{Capability, Namespace, PluginName, Release, Row};

/// A release is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// That version is there.
    #[error("`{name}` {version} is published already, and a release is never overwritten; raise the version")]
    Exists {
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
    },
    /// It has changed more than its number says.
    #[error(transparent)]
    Step(Box<TooSmallStep>),
    /// Its name can be taken for another.
    #[error(
        "the name `{name}` is too like `{other}`, which is another publisher's; choose a name that nobody confuses with it"
    )]
    Close {
        /// The plugin.
        name: PluginName,
        /// The other.
        other: PluginName,
    },
    /// There is no report.
    #[error(
        "`{name}` {version} has no report of the conformance suite; run `host plugin test` and publish with its report"
    )]
    NoReport {
        /// The plugin.
        name: PluginName,
        /// The version.
        version: Version,
    },
    /// The report is not of this component, of an older suite, not whole, or made with too little.
    #[error("the report of the conformance suite {0}; run `host plugin test` again on the component that is published")]
    OtherReport(String),
    /// The suite could not look at something that the plugin has.
    #[error(
        "the conformance suite skipped its check `{check}`, which this plugin needs: {why}; run `host plugin test --json` \
         with what it wants, and publish with its report"
    )]
    Skipped {
        /// The check.
        check: String,
        /// Why it was skipped.
        why: String,
    },
    /// The suite found faults.
    #[error("the conformance suite failed: {}; correct the plugin and run `host plugin test` again", listed(.0))]
    Failed(Vec<String>),
}

/// A release changes more than its number says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` {version} {change}, unlike {before}: that needs {needed} release; make it {proposed}, or undo the change"
)]
pub struct TooSmallStep {
    /// The plugin.
    pub name: PluginName,
    /// The version.
    pub version: Version,
    /// What it has or asks for, in words.
    pub change: String,
    /// The version before it.
    pub before: Version,
    /// What kind of release would do.
    pub needed: Step,
    /// The number that would do.
    pub proposed: Version,
}

fn listed(failures: &[String]) -> String {
    failures.join("; ")
}

/// Whether a release may be added to these versions of its plugin, in a registry with these plugins.
///
/// # Errors
/// Says which rule it breaks.
pub fn check<'a>(
    release: &Release,
    rows: &[Row],
    mut others: impl Iterator<Item = &'a PluginName>,
) -> Result<(), Refusal> {
    let (name, version) = (&release.manifest.name, &release.manifest.version);
    // Build metadata does not tell versions apart: nobody could ask for one of the two.
    let same = |row: &Row| version.cmp_precedence(&row.version).is_eq();
    if rows.iter().any(same) {
        return Err(Refusal::Exists { name: name.clone(), version: version.clone() });
    }
    suite::check_report(release)?;
    if rows.is_empty()
        && let Some(other) = others.find(|other| too_close(name, other))
    {
        return Err(Refusal::Close { name: name.clone(), other: other.clone() });
    }
    check_step(release, rows)
}

/// The version before it says what the number promises; a first version promises nothing.
fn check_step(release: &Release, rows: &[Row]) -> Result<(), Refusal> {
    let version = &release.manifest.version;
    let newest = |rows: &mut dyn Iterator<Item = &'_ Row>| {
        rows.filter(|row| row.version < *version).max_by(|one, other| one.version.cmp(&other.version)).cloned()
    };
    // What comes after a version that was no release yet still comes after the last one that was.
    let released = newest(&mut rows.iter().filter(|row| row.version.pre.is_empty()));
    let newest = newest(&mut rows.iter());
    for before in [newest, released.filter(|_| version.pre.is_empty())].into_iter().flatten() {
        check_step_from(&before, release)?;
    }
    Ok(())
}

fn check_step_from(before: &Row, release: &Release) -> Result<(), Refusal> {
    let (name, version) = (&release.manifest.name, &release.manifest.version);
    let step = Step::between(&before.version, version);
    for (needed, change) in changes(release, before) {
        if step < needed {
            let proposed = needed.after(&before.version);
            let (name, version, before) = (name.clone(), version.clone(), before.version.clone());
            let too_small = TooSmallStep { name, version, change, before, needed, proposed };
            return Err(Refusal::Step(Box::new(too_small)));
        }
    }
    Ok(())
}

/// What differs from the version before, greatest first, and what kind of release each difference needs.
fn changes(release: &Release, before: &Row) -> Vec<(Step, String)> {
    let manifest = &release.manifest;
    let mut changes = Vec::new();
    let gone: Vec<String> = before.exports.difference(&release.exports).map(|name| format!("`{name}`")).collect();
    if !gone.is_empty() {
        changes.push((Step::Breaking, format!("lacks the exports {}", gone.join(", "))));
    }
    let (old, new) = (&before.contract, &manifest.contract);
    if Step::between(&old.version, &new.version) == Step::Breaking {
        changes.push((Step::Breaking, format!("speaks contract {}", new.version)));
    } else if old != new {
        changes.push((Step::Addition, format!("speaks another contract, {}", new.version)));
    }
    let wider: BTreeSet<&Capability> = manifest.capabilities.difference(&before.capabilities).collect();
    if !wider.is_empty() {
        let wider: Vec<String> = wider.into_iter().map(|capability| format!("`{capability}`")).collect();
        changes.push((Step::Addition, format!("asks for the capabilities {}", wider.join(", "))));
    }
    let added: Vec<String> = release.exports.difference(&before.exports).map(|name| format!("`{name}`")).collect();
    if !added.is_empty() {
        changes.push((Step::Addition, format!("exports {}", added.join(", "))));
    }
    changes
}

/// Whether a namespace may be granted in a registry with these.
///
/// # Errors
/// With the one that it can be taken for.
pub fn check_namespace<'a>(
    namespace: &Namespace,
    mut others: impl Iterator<Item = &'a Namespace>,
) -> Result<(), Namespace> {
    match others.find(|other| too_close_namespace(namespace, other)) {
        Some(other) => Err(other.clone()),
        None => Ok(()),
    }
}
