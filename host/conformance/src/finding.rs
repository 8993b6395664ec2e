//! How a check ends: in a finding about the plugin, or because the host failed.

use std::fmt::Display;

use gymkhana_record::FailureKind;
use gymkhana_registry::Outcome;
use gymkhana_sandbox::CallError;

/// What cuts a check short.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The plugin does not do what it should: what was seen and what to change.
    Plugin(String),
    /// The host could not do its part; nothing is known of the plugin.
    Host(CallError),
}

/// What a check comes to.
pub(crate) type Finding = Result<Outcome, Stop>;

/// The check passed, and this was seen.
pub(crate) fn passed(seen: impl Display) -> Finding {
    Ok(Outcome::Passed(seen.to_string()))
}

/// There is nothing to check.
pub(crate) fn skipped(why: impl Display) -> Finding {
    Ok(Outcome::Skipped(why.to_string()))
}

/// The check failed: what was seen, and what to change.
pub(crate) fn failed(seen: impl Display, change: &str) -> Finding {
    Err(stop(seen, change))
}

/// As [`failed`], where a value is wanted.
pub(crate) fn stop(seen: impl Display, change: &str) -> Stop {
    Stop::Plugin(format!("{seen}; {change}"))
}

/// Says during what a call failed.
pub(crate) trait CheckPhase<T> {
    /// The failure is a finding: the plugin should have answered.
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

/// What to change about a failure.
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
        FailureKind::ResultSize => "shorten what the plugin returns",
        FailureKind::Malformed => "return what the contract and the plugin's own description allow",
        FailureKind::Refused => "answer it: an `Error` is only for what the host did wrong",
        FailureKind::Neighbour | FailureKind::Capacity | FailureKind::Fault => "try again",
    }
}

/// A text, short enough to stand in a report.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 200;
    if text.len() <= MOST {
        return text.to_owned();
    }
    format!("{}… ({} bytes)", &text[..text.floor_char_boundary(MOST)], text.len())
}

/// Where two texts part, as a person finds the place in both.
pub(crate) fn divergence(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| {
        let from = text.floor_char_boundary(same.saturating_sub(40));
        let to = text.floor_char_boundary((same + 80).min(text.len()));
        text[from..to].to_owned()
    };
    format!("`{}` and `{}`", around(one), around(other))
}
