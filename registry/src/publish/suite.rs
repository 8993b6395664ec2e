//! Required content of a conformance report: every check of the suite, run with sufficient settings, and passed where it
//! applies to the plugin.
//!
//! The check names are defined here and not in the conformance crate, because the server validates reports without
//! linking the host. The tests of the conformance crate compare its checks with this list.

use std::collections::BTreeMap;

use super::RuleViolation;
use crate::{Check, CheckOutcome, Kind, REPORT_SCHEMA, Release, Report, SUITE};

/// Minimum number of random and fuzzed actions of a report.
pub const MIN_REPORT_ACTIONS: u64 = 1000;
/// Maximum fuel limit of one call in a report, in instructions (about one minute).
pub const MAX_REPORT_FUEL: u64 = 60_000_000_000;
/// Maximum memory limit of one instance in a report, in bytes (2 GiB).
pub const MAX_REPORT_MEMORY: u64 = 2 << 30;

/// Plugins for which a check must pass. For all others it may be skipped.
#[derive(Debug, Clone, Copy)]
enum Applicability {
    /// Every plugin.
    Always,
    /// Plugins of these kinds.
    Kinds(&'static [Kind]),
    /// Deterministic plugins of these kinds.
    Deterministic(&'static [Kind]),
    /// Plugins that export one of these interfaces.
    Exports(&'static [&'static str]),
}

/// Kinds that the suite drives with actions or calls.
const INTERACTIVE: &[Kind] = &[Kind::Environment, Kind::Tool];
const SNAPSHOTS: &[&str] = &["environment-snapshot", "tool-snapshot"];
const READ_ONLY: &[&str] = &[
    "environment-snapshot",
    "environment-state-key",
    "environment-privileged",
    "environment-guidance",
    "environment-render",
    "tool-snapshot",
    "tool-final-view",
];

/// Checks of the suite in execution order.
const CHECKS: [(&str, Applicability); 19] = [
    ("capabilities", Applicability::Always),
    ("loads", Applicability::Always),
    ("describes-itself", Applicability::Always),
    ("options", Applicability::Always),
    ("splits-and-tasks", Applicability::Kinds(&[Kind::Environment])),
    ("parameters", Applicability::Kinds(&[Kind::Tool])),
    ("same-seed-same-bytes", Applicability::Deterministic(INTERACTIVE)),
    ("snapshots", Applicability::Exports(SNAPSHOTS)),
    ("bad-snapshots", Applicability::Exports(SNAPSHOTS)),
    ("state-keys", Applicability::Exports(&["environment-state-key"])),
    ("read-only", Applicability::Exports(READ_ONLY)),
    ("oracle", Applicability::Exports(&["environment-oracle"])),
    ("invalid-actions", Applicability::Kinds(INTERACTIVE)),
    ("isolation", Applicability::Kinds(INTERACTIVE)),
    ("fuzz", Applicability::Kinds(INTERACTIVE)),
    ("scores", Applicability::Kinds(&[Kind::Reward])),
    ("same-episodes-same-scores", Applicability::Deterministic(&[Kind::Reward])),
    ("cost", Applicability::Always),
    ("option-limits", Applicability::Always),
];

/// Names of the checks in every report, in execution order.
pub fn suite_checks() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, _)| *name)
}

impl Applicability {
    fn is_required(self, release: &Release) -> bool {
        let manifest = &release.manifest;
        let is = |kinds: &[Kind]| kinds.iter().any(|kind| manifest.kinds.contains(kind));
        match self {
            Self::Always => true,
            Self::Kinds(kinds) => is(kinds),
            Self::Deterministic(kinds) => manifest.deterministic && is(kinds),
            Self::Exports(interfaces) => {
                interfaces.iter().any(|name| release.exports.contains(&format!("gymkhana:plugin/{name}")))
            }
        }
    }
}

/// Checks that a release's report is for its component, by this suite or a later one, complete and without failures.
///
/// # Errors
/// The first problem found.
pub(super) fn check_report(release: &Release) -> Result<(), RuleViolation> {
    let manifest = &release.manifest;
    let Some(report) = &release.report else {
        return Err(RuleViolation::NoReport { name: manifest.name.clone(), version: manifest.version.clone() });
    };
    check_subject(report, release)?;
    check_settings(report, release)?;
    let failures: Vec<String> = report.failures().map(|(name, why)| format!("{name}: {why}")).collect();
    if failures.is_empty() { check_completeness(report, release) } else { Err(RuleViolation::Failed(failures)) }
}

fn invalid(why: impl Into<String>) -> Result<(), RuleViolation> {
    Err(RuleViolation::InvalidReport(why.into()))
}

fn check_subject(report: &Report, release: &Release) -> Result<(), RuleViolation> {
    let manifest = &release.manifest;
    if report.schema != REPORT_SCHEMA {
        return invalid(format!("has schema {} instead of {REPORT_SCHEMA}", report.schema));
    }
    if report.digest != release.digest || report.name != manifest.name || report.version != manifest.version {
        return invalid("describes another component");
    }
    if report.contract != manifest.contract {
        return invalid("describes another contract");
    }
    if report.suite < SUITE {
        return invalid(format!("is from suite {}, but {SUITE} is required", report.suite));
    }
    Ok(())
}

/// Checks that the report was made with enough actions and within the maximum limits.
fn check_settings(report: &Report, release: &Release) -> Result<(), RuleViolation> {
    if report.thinned {
        return invalid("is of a short suite");
    }
    if report.actions < MIN_REPORT_ACTIONS {
        return invalid(format!("was made with {} actions, but {MIN_REPORT_ACTIONS} are required", report.actions));
    }
    let is_interactive = release.manifest.kinds.iter().any(|kind| INTERACTIVE.contains(kind));
    let least = if is_interactive { report.actions } else { 1 };
    if report.steps < least {
        return invalid(format!("records {} calls, but at least {least} are required", report.steps));
    }
    if !(1..=MAX_REPORT_FUEL).contains(&report.most_fuel) {
        return invalid(format!("allows {} instructions per call, outside 1 to {MAX_REPORT_FUEL}", report.most_fuel));
    }
    if !(1..=MAX_REPORT_MEMORY).contains(&report.most_memory) {
        return invalid(format!("allows {} bytes of memory, outside 1 to {MAX_REPORT_MEMORY}", report.most_memory));
    }
    Ok(())
}

/// Checks that the report contains every check of the suite once and skips no required one.
fn check_completeness(report: &Report, release: &Release) -> Result<(), RuleViolation> {
    let mut outcomes: BTreeMap<&str, &CheckOutcome> = BTreeMap::new();
    for Check { name, outcome, .. } in &report.checks {
        if outcomes.insert(name, outcome).is_some() {
            return invalid(format!("contains the check `{name}` twice"));
        }
    }
    for (name, applicability) in CHECKS {
        match outcomes.get(name) {
            None => return invalid(format!("lacks the check `{name}`")),
            Some(CheckOutcome::Skipped(why)) if applicability.is_required(release) => {
                return Err(RuleViolation::Skipped { check: name.to_owned(), why: why.clone() });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
