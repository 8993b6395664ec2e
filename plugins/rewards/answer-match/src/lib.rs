//! Does the last message give the privileged `answer`? One point if it does, less a price for each call.

use gymkhana_answer as answer;
use gymkhana_sdk::reward::{Ending, Info, Ranged, Reward, Score, Trajectory, each_seat};
use gymkhana_sdk::{Error, OptionInfo, Options, plugin};

/// Compares the last message with the environment's privileged `answer`.
pub struct AnswerMatch;

impl Reward for AnswerMatch {
    fn info() -> Info {
        Info::new("1 when the last message gives the privileged `answer`, less a price for each call")
            .component("correct", "1 when the last message gives the answer, else 0")
            .component("calls", "calls that the seat made")
            .component("cost", "points taken off for calls")
            .option(OptionInfo::new("mode", "How answers are compared", "auto").one_of(&answer::MODES))
            .option(OptionInfo::new("per-call-cost", "Points off for each call", 0.0).within(0.0, f64::INFINITY))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        each_seat(group, |trajectory, seat| {
            let wanted = trajectory.privileged("answer").ok_or_else(|| {
                Error::invalid("answer-match needs an environment whose privileged view has an `answer`")
            })?;
            // An episode that was cut off has no last word, whatever was said before.
            let said = trajectory.last_message(seat).filter(|_| trajectory.ending == Ending::Terminated);
            let found = said.and_then(|(turn, text)| {
                answer::find(&text, &wanted.shown(), options.text("mode")).map(|span| (turn, span))
            });
            let correct = f64::from(u8::from(found.is_some()));
            let calls = trajectory.calls(seat).count() as f64;
            let cost = options.number("per-call-cost") * calls;
            let total = (correct - cost).clamp(Self::RANGE.low, Self::RANGE.high);
            let score = Score::new(seat, total).component("correct", correct).component("calls", calls);
            let score = score.component("cost", cost);
            Ok(match found {
                Some((turn, span)) => score.evidence(turn, span, "the answer"),
                None => score,
            })
        })
    }
}

plugin! { reward: AnswerMatch }

#[cfg(test)]
mod tests;
