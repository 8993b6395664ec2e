//! What a report of the conformance suite must hold: every check of the suite, made with enough, and passed where the
//! plugin has what the check looks at.
//!
//! The names stand here and not with the suite, since a server checks reports and knows no host. A suite that names
//! other checks than these fails its own tests.

use std::collections::BTreeMap;

use super::Refusal;
use crate::{Check, Kind, Outcome, REPORT_SCHEMA, Release, Report, SUITE};

/// Random and fuzzed actions that a report is made with, at least.
pub const LEAST_ACTIONS: u64 = 1000;
/// The most instructions of one call that a report may let pass: about a minute's worth.
pub const MOST_FUEL: u64 = 60_000_000_000;
/// The most memory of one instance that a report may let pass, in bytes: 2 GiB.
pub const MOST_MEMORY: u64 = 2 << 30;

/// When a check must have passed; else it may have been skipped.
#[derive(Debug, Clone, Copy)]
enum Needed {
    /// For every plugin.
    Always,
    /// For a plugin of one of these kinds.
    Of(&'static [Kind]),
    /// For one of these kinds whose manifest promises the same bytes for the same seed.
    Steady(&'static [Kind]),
    /// For a plugin that exports one of these interfaces.
    Offering(&'static [&'static str]),
}

/// What is played with.
const PLAYED: &[Kind] = &[Kind::Environment, Kind::Tool];
const SNAPSHOTS: &[&str] = &["environment-snapshot", "tool-snapshot"];
const LOOKS: &[&str] = &[
    "environment-snapshot",
    "environment-state-key",
    "environment-privileged",
    "environment-guidance",
    "environment-render",
    "tool-snapshot",
    "tool-final-view",
];

/// The suite's checks.
const CHECKS: [(&str, Needed); 18] = [
    ("capabilities", Needed::Always),
    ("loads", Needed::Always),
    ("describes-itself", Needed::Always),
    ("options", Needed::Always),
    ("splits-and-tasks", Needed::Of(&[Kind::Environment])),
    ("parameters", Needed::Of(&[Kind::Tool])),
    ("same-seed-same-bytes", Needed::Steady(PLAYED)),
    ("snapshots", Needed::Offering(SNAPSHOTS)),
    ("bad-snapshots", Needed::Offering(SNAPSHOTS)),
    ("state-keys", Needed::Offering(&["environment-state-key"])),
    ("looking", Needed::Offering(LOOKS)),
    ("oracle", Needed::Offering(&["environment-oracle"])),
    ("invalid-actions", Needed::Of(PLAYED)),
    ("apart", Needed::Of(PLAYED)),
    ("fuzz", Needed::Of(PLAYED)),
    ("scores", Needed::Of(&[Kind::Reward])),
    ("same-episodes-same-scores", Needed::Steady(&[Kind::Reward])),
    ("cost", Needed::Always),
];

/// The names of the checks that every report has, in their order.
pub fn suite_checks() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, _)| *name)
}

impl Needed {
    fn is_needed(self, release: &Release) -> bool {
        let manifest = &release.manifest;
        let is = |kinds: &[Kind]| kinds.iter().any(|kind| manifest.kinds.contains(kind));
        match self {
            Self::Always => true,
            Self::Of(kinds) => is(kinds),
            Self::Steady(kinds) => manifest.deterministic && is(kinds),
            Self::Offering(interfaces) => {
                interfaces.iter().any(|name| release.exports.contains(&format!("gymkhana:plugin/{name}")))
            }
        }
    }
}

/// Sees that a release's report is of this very component, by this suite or a later one, whole, and without a fault.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn check_report(release: &Release) -> Result<(), Refusal> {
    let manifest = &release.manifest;
    let Some(report) = &release.report else {
        return Err(Refusal::NoReport { name: manifest.name.clone(), version: manifest.version.clone() });
    };
    is_of(report, release)?;
    is_enough(report, release)?;
    let failures: Vec<String> = report.failures().map(|(name, why)| format!("{name}: {why}")).collect();
    if failures.is_empty() { is_whole(report, release) } else { Err(Refusal::Failed(failures)) }
}

fn other(what: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal::OtherReport(what.into()))
}

fn is_of(report: &Report, release: &Release) -> Result<(), Refusal> {
    let manifest = &release.manifest;
    if report.schema != REPORT_SCHEMA {
        return other(format!("has schema {}, and {REPORT_SCHEMA} is wanted", report.schema));
    }
    if report.digest != release.digest || report.name != manifest.name || report.version != manifest.version {
        return other("is of another component");
    }
    if report.contract != manifest.contract {
        return other("is of another contract");
    }
    if report.suite < SUITE {
        return other(format!("is of suite {}, and {SUITE} is wanted", report.suite));
    }
    Ok(())
}

/// Whether it was made with enough actions, and let no more pass than any run can allow.
fn is_enough(report: &Report, release: &Release) -> Result<(), Refusal> {
    if report.actions < LEAST_ACTIONS {
        return other(format!("was made with {} actions, and {LEAST_ACTIONS} are wanted", report.actions));
    }
    let is_played = release.manifest.kinds.iter().any(|kind| PLAYED.contains(kind));
    let least = if is_played { report.actions } else { 1 };
    if report.steps < least {
        return other(format!("tells of {} calls, and {least} at least are wanted", report.steps));
    }
    if !(1..=MOST_FUEL).contains(&report.most_fuel) {
        return other(format!("lets {} instructions of a call pass, and {MOST_FUEL} is the most", report.most_fuel));
    }
    if !(1..=MOST_MEMORY).contains(&report.most_memory) {
        return other(format!("lets {} bytes of memory pass, and {MOST_MEMORY} is the most", report.most_memory));
    }
    Ok(())
}

/// Whether every check of the suite stands in it, once, and has passed if it is needed.
fn is_whole(report: &Report, release: &Release) -> Result<(), Refusal> {
    let mut made: BTreeMap<&str, &Outcome> = BTreeMap::new();
    for Check { name, outcome } in &report.checks {
        if made.insert(name, outcome).is_some() {
            return other(format!("has the check `{name}` twice"));
        }
    }
    for (name, needed) in CHECKS {
        match made.get(name) {
            None => return other(format!("lacks the check `{name}`")),
            Some(Outcome::Skipped(why)) if needed.is_needed(release) => {
                return Err(Refusal::Skipped { check: name.to_owned(), why: why.clone() });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
