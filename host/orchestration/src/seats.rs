//! Sections `[seats.NAME]` of a run file, bound to the environment's seats.

use std::collections::BTreeMap;

use gymkhana_config::{EpisodeRules, SeatBinding, SeatSection};
use gymkhana_nearest::did_you_mean;
use gymkhana_rollout::PluginSet;
use gymkhana_sandbox::OptionalInterface;

use crate::error::{RunError, RunResult};

/// A seat with its section of the run file.
pub struct Binding<'a> {
    /// Index in the environment's list of seats.
    pub seat: u32,
    /// Name of the seat.
    pub name: &'a str,
    /// Section of the seat, or the default one.
    pub section: SeatSection,
}

/// Checks the run file's seats against the environment's.
///
/// # Errors
/// If a section names no seat, no seat is the run's policy, or an oracle is missing.
pub fn check(rules: &EpisodeRules, plugins: &PluginSet) -> RunResult<()> {
    let environment = &plugins.environment().plugin;
    let (name, seats) = (environment.name(), plugins.seat_names());
    if let Some(wrong) = rules.seats.keys().find(|seat| !seats.contains(seat)) {
        let near = did_you_mean(wrong, seats.iter().map(String::as_str));
        return Err(RunError::user(format!(
            "[seats.{wrong}] is unknown: environment `{name}` has no such seat\nhint: its seats are `{}`{near}",
            seats.join("`, `")
        )));
    }
    let bindings = bindings(&rules.seats, seats);
    if !bindings.iter().any(|binding| binding.section.policy == SeatBinding::Shared) {
        return Err(RunError::user(format!(
            "[seats] binds every seat of environment `{name}` to another policy, so that nothing is trained\nhint: set \
             the policy of one of `{}` to \"shared\"",
            seats.join("`, `")
        )));
    }
    let expert = bindings.iter().find(|binding| binding.section.policy == SeatBinding::Oracle);
    match expert.filter(|_| !environment.offers(OptionalInterface::Oracle)) {
        Some(Binding { name: seat, .. }) => Err(RunError::user(format!(
            "seats.{seat}.policy is \"oracle\", but environment `{name}` has no oracle\nhint: set it to \"shared\", \
             \"frozen\" or \"separate\""
        ))),
        None => Ok(()),
    }
}

/// Bindings of all seats; seats without a section share the run's policy.
#[must_use]
pub fn bindings<'a>(sections: &BTreeMap<String, SeatSection>, seats: &'a [String]) -> Vec<Binding<'a>> {
    let section = |name| sections.get(name).cloned().unwrap_or_default();
    (0..).zip(seats).map(|(seat, name)| Binding { seat, name, section: section(name) }).collect()
}
