//! Results of a check: a finding about the plugin, or a failure of the host.

use std::fmt::Display;

use gymkhana_record::FailureKind;
use gymkhana_registry::Outcome;
use gymkhana_sandbox::CallError;

/// Reason for which a check ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The plugin fails the check: an observation and a remedy.
    Plugin(String),
    /// The host failed, so the check has no result.
    Host(CallError),
}

/// Result of a check.
pub(crate) type Finding = Result<Outcome, Stop>;

/// The check passed; `seen` describes what was checked.
pub(crate) fn passed(seen: impl Display) -> Finding {
    Ok(Outcome::Passed(seen.to_string()))
}

/// The check does not apply, for this reason.
pub(crate) fn skipped(why: impl Display) -> Finding {
    Ok(Outcome::Skipped(why.to_string()))
}

/// The check failed: what was observed, and what to change.
pub(crate) fn failed(seen: impl Display, change: &str) -> Finding {
    Err(stop(seen, change))
}

/// Like [`failed`], for use as an error.
pub(crate) fn stop(seen: impl Display, change: &str) -> Stop {
    Stop::Plugin(format!("{seen}; {change}"))
}

/// Adds the phase of a check to a failed call.
pub(crate) trait CheckPhase<T> {
    /// Turns a plugin's failure into a finding, and keeps a failure of the host.
    fn during(self, what: impl Display) -> Result<T, Stop>;
}

impl<T> CheckPhase<T> for Result<T, CallError> {
    fn during(self, what: impl Display) -> Result<T, Stop> {
        self.map_err(|error| {
            if error.kind.is_hosts() {
                return Stop::Host(error);
            }
            stop(format!("{what}: {}", error.message), advice(error.kind))
        })
    }
}

/// Remedy for a kind of failure.
fn advice(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Trap => {
            "return what went wrong instead of panicking: an observation or a failed answer for what an agent did, an \
             `Error` for what the host did"
        }
        FailureKind::Budget | FailureKind::Fuel | FailureKind::Deadline => {
            "bound what one call may do, and answer in words when the bound is met"
        }
        FailureKind::Memory => {
            "bound what one call may hold in memory, or ask users to allow more (`sandbox.memory_mib`)"
        }
        FailureKind::ResultSize | FailureKind::EpisodeSize => "shorten what the plugin returns",
        FailureKind::Malformed => "return what the contract and the plugin's own description allow",
        FailureKind::Refused => "answer it: an `Error` is only for what the host did wrong",
        FailureKind::Neighbour | FailureKind::Capacity | FailureKind::Fault => "try again",
    }
}

/// A text, shortened for a report.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 200;
    if text.len() <= MOST {
        return text.to_owned();
    }
    format!("{}… ({} bytes)", &text[..text.floor_char_boundary(MOST)], text.len())
}

/// Excerpts of two texts around their first difference.
pub(crate) fn divergence(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| {
        let from = text.floor_char_boundary(same.saturating_sub(40));
        let to = text.floor_char_boundary((same + 80).min(text.len()));
        text[from..to].to_owned()
    };
    format!("`{}` and `{}`", around(one), around(other))
}
