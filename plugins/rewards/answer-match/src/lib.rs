//! Reward for a final message that contains the environment's privileged `answer`: 1 point, minus a cost per call.

use gymkhana_answer::{Mode, find_accepted};
use gymkhana_sdk::reward::{Ending, Info, Ranged, Reward, Score, Trajectory, each_seat};
use gymkhana_sdk::{Error, PluginOptions, plugin};

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Comparison of answers
    #[option(default = Mode::Auto)]
    mode: Mode,
    /// Points deducted per call
    #[option(default = 0.0, range = 0.0..)]
    per_call_cost: f64,
}

/// Compares the final message of each seat with the privileged `answer`.
pub struct AnswerMatch;

impl Reward for AnswerMatch {
    type Options = Options;

    fn info() -> Info {
        Info::new("1 if the final message contains the privileged `answer`, minus a cost per call")
            .component("correct", "1 if the final message contains the answer, else 0")
            .component("calls", "number of calls of the seat, malformed ones too")
            .component("cost", "points deducted for calls")
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        each_seat(group, |trajectory, seat| {
            let expected = trajectory.privileged("answer").ok_or_else(|| {
                Error::invalid("the environment has no privileged `answer`: use an environment that has one")
            })?;
            // An episode that the environment did not end has no final answer.
            let final_message = trajectory.last_message(seat).filter(|_| trajectory.ending == Ending::Terminated);
            let found = final_message
                .and_then(|(turn, text)| find_accepted(&text, expected, options.mode).map(|span| (turn, span)));
            let correct = f64::from(u8::from(found.is_some()));
            let calls = trajectory.calls(seat).count() as f64;
            let cost = options.per_call_cost * calls;
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
