//! What a program that has ended or was ended contributes to its episode.

use std::time::Duration;

use gymkhana_record::{AgentRun, Boundary, CallSite, Ending, Failure, FailureKind};
use gymkhana_rollout::AgentPlay;

use crate::program::{ProgramEnd, ProgramStartError};
use crate::session::{ServeEnd, SessionOutcome, SpentLimit};

/// The contribution of a program that has ended or was ended.
pub(super) fn concluded(
    outcome: SessionOutcome,
    served: ServeEnd<Result<ProgramEnd, ProgramStartError>>,
    own_time: Duration,
) -> AgentPlay {
    let failure = |kind, message: String| Failure { at: Boundary::Agent, kind, call_site: CallSite::Agent, message };
    let mut run = AgentRun {
        repeats: outcome.counts.repeats,
        side_requests: outcome.counts.side,
        refused: outcome.counts.refused,
        ..AgentRun::default()
    };
    let mut play = (None, None);
    match served {
        ServeEnd::EpisodeTime => play.1 = Some(Ending::TimeLimit),
        // The episode's failures have the reason.
        ServeEnd::Lost => play.1 = Some(Ending::Dropped),
        ServeEnd::ProgramTime => {
            let message = format!("it gave no answer in {} seconds of its own", own_time.as_secs_f64());
            play.0 = Some(failure(FailureKind::Deadline, message));
        }
        ServeEnd::Ended(Err(error)) => play.0 = Some(failure(FailureKind::Fault, error.to_string())),
        ServeEnd::Ended(Ok(end)) => {
            (run.exit, run.stderr) = (end.status, end.stderr.clone());
            match answer(&outcome, end) {
                Ok(answer) => run.answer = Some(answer),
                Err(Unanswered::Limit(ending)) => play.1 = Some(ending),
                Err(Unanswered::Failed(kind, message)) => play.0 = Some(failure(kind, message)),
            }
        }
    }
    if let Some(message) = outcome.fault {
        let call_site = CallSite::Agent;
        play.0 = Some(Failure { at: Boundary::Model, kind: FailureKind::Fault, call_site, message });
    }
    let (failure, mut ending) = play;
    if let Some(failure) = &failure {
        run.answer = None;
        ending = Some(if failure.kind.is_hosts() { Ending::Dropped } else { Ending::AgentFailed });
    }
    let SessionOutcome { transcript, policy_turns, segments, calls, .. } = outcome;
    run.calls = calls;
    AgentPlay { run, transcript, policy_turns, segments, failure, ending }
}

/// The reason for which a program that has ended has no answer.
enum Unanswered {
    /// A limit of the run refused a request, and the program gave up.
    Limit(Ending),
    /// The program failed.
    Failed(FailureKind, String),
}

/// The answer of a program: its standard output, or the last reply of the policy if it wrote nothing.
fn answer(outcome: &SessionOutcome, end: ProgramEnd) -> Result<String, Unanswered> {
    let failed = |kind, message: String| Err(Unanswered::Failed(kind, message));
    if let Some(signal) = end.signal {
        return failed(FailureKind::Trap, format!("signal {signal} ended it{}", last_line(&end.stderr)));
    }
    if end.status != Some(0) {
        match outcome.spent {
            Some(SpentLimit::Turns) => return Err(Unanswered::Limit(Ending::TurnLimit)),
            Some(SpentLimit::Context) => return Err(Unanswered::Limit(Ending::ContextLimit)),
            Some(SpentLimit::Calls) => return Err(Unanswered::Limit(Ending::CallLimit)),
            None => {}
        }
        let status = end.status.unwrap_or_default();
        return failed(FailureKind::Refused, format!("it exited with status {status}{}", last_line(&end.stderr)));
    }
    if end.overflowed {
        return failed(FailureKind::ResultSize, "its standard output is larger than 1 MiB".to_owned());
    }
    if outcome.policy_turns.is_empty() {
        let message = "it never called the model\nhint: it must use OPENAI_BASE_URL or ANTHROPIC_BASE_URL";
        return failed(FailureKind::Malformed, message.to_owned());
    }
    match String::from_utf8(end.output) {
        Ok(output) if output.trim().is_empty() => Ok(outcome.last_text.clone().unwrap_or_default()),
        Ok(output) => Ok(output.trim().to_owned()),
        Err(_) => failed(FailureKind::Malformed, "its standard output is not UTF-8".to_owned()),
    }
}

/// The last line of standard error, where most programs name the error.
fn last_line(stderr: &str) -> String {
    stderr.lines().rev().find(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {line}"))
}
