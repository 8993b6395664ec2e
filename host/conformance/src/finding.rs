//! Results of a check: a finding about the plugin, or a failure of the host.

use std::fmt::Display;

use gymkhana_record::FailureKind;
use gymkhana_registry::CheckOutcome;
use gymkhana_sandbox::CallError;

/// Reason for which a check ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The plugin fails the check.
    Plugin(Defect),
    /// The host failed, so the check has no result.
    Host(CallError),
}

/// Defect of a plugin, as one check observed it.
#[derive(Debug, Clone)]
pub(crate) struct Defect {
    /// Observation.
    seen: String,
    /// Failed call behind the observation, if any.
    cause: Option<CallError>,
    /// Remedy, if any.
    change: Option<String>,
}

impl Defect {
    /// A defect without a remedy.
    pub(crate) fn new(seen: impl Display) -> Self {
        Self { seen: seen.to_string(), cause: None, change: None }
    }

    /// The defect of a failed call.
    pub(crate) fn of_call(seen: impl Display, error: CallError) -> Self {
        let change = Some(advice(error.kind).to_owned());
        Self { seen: seen.to_string(), cause: Some(error), change }
    }

    /// Whether both defects are failed calls with the same failure.
    pub(crate) fn has_cause_of(&self, other: &Self) -> bool {
        let failure = |defect: &Self| defect.cause.as_ref().map(|error| (error.kind, error.message.clone()));
        self.cause.is_some() && failure(self) == failure(other)
    }

    /// The observation without its cause.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Whether the plugin refused a request as invalid.
    pub(crate) fn is_refusal(&self) -> bool {
        self.cause.as_ref().is_some_and(CallError::is_invalid)
    }

    /// The defect with another remedy.
    pub(crate) fn with_change(self, change: impl Display) -> Self {
        Self { change: Some(change.to_string()), ..self }
    }

    /// The defect with a further sentence at its end.
    pub(crate) fn with_note(self, note: impl Display) -> Self {
        let change = self.change.as_ref().map_or_else(|| note.to_string(), |change| format!("{change}; {note}"));
        self.with_change(change)
    }

    /// The defect with a phrase before its observation.
    pub(crate) fn within(mut self, what: impl Display) -> Self {
        self.seen = format!("{what}: {}", self.seen);
        self
    }
}

impl Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.seen)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {}", cause.message)?;
        }
        match &self.change {
            Some(change) => write!(f, "; {change}"),
            None => Ok(()),
        }
    }
}

/// Result of a check.
pub(crate) type Finding = Result<CheckOutcome, Stop>;

/// The check passed; `seen` describes what was checked.
pub(crate) fn passed(seen: impl Display) -> Finding {
    Ok(CheckOutcome::Passed(seen.to_string()))
}

/// The check does not apply, for this reason.
pub(crate) fn skipped(why: impl Display) -> Finding {
    Ok(CheckOutcome::Skipped(why.to_string()))
}

/// The check failed: what was observed, and what to change.
pub(crate) fn failed(seen: impl Display, change: &str) -> Finding {
    Err(stop(seen, change))
}

/// Like [`failed`], for use as an error.
pub(crate) fn stop(seen: impl Display, change: &str) -> Stop {
    Stop::Plugin(Defect { change: Some(change.to_owned()), ..Defect::new(seen) })
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
            Stop::Plugin(Defect::of_call(what, error))
        })
    }
}

/// Remedy for a kind of failure.
fn advice(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Trap => {
            "handle the case without a panic or an uncaught exception: an environment answers an agent's mistake with an \
             observation, a tool with a failed answer, and a plugin of any kind refuses a wrong request of the host with \
             an `Error`"
        }
        FailureKind::Budget | FailureKind::Fuel | FailureKind::Deadline => {
            "bound what one call may do, and return a message when the bound is reached"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn defect(kind: FailureKind, message: &str, what: &str) -> Defect {
        match Err::<(), _>(CallError::new(kind, message)).during(what) {
            Err(Stop::Plugin(defect)) => defect,
            other => panic!("not a defect: {other:?}"),
        }
    }

    #[test]
    fn defects_share_a_cause_if_the_same_failure_ended_their_calls() {
        let first = defect(FailureKind::ResultSize, "8 MiB", "the start");
        assert_eq!(first.to_string(), "the start: 8 MiB; shorten what the plugin returns");
        assert!(first.has_cause_of(&defect(FailureKind::ResultSize, "8 MiB", "step 3")));
        assert!(!first.has_cause_of(&defect(FailureKind::ResultSize, "9 MiB", "the start")));
        assert!(!first.has_cause_of(&defect(FailureKind::Trap, "8 MiB", "the start")));
        // Without a failed call, equal words are not taken for one cause.
        assert!(!Defect::new("it has no splits").has_cause_of(&Defect::new("it has no splits")));
        assert_eq!(
            first.within("at size=8").to_string(),
            "at size=8: the start: 8 MiB; shorten what the plugin returns"
        );
    }
}
