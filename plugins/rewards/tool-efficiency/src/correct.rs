//! Success of an attempt, by a criterion of the run.
//!
//! A reward cannot see the scores of other rewards, and OTC multiplies by success, so this reward judges success
//! itself.

use gymkhana_answer::find_accepted;
use gymkhana_sdk::reward::{Ending, Trajectory};
use gymkhana_sdk::{Error, OptionValue, Value};

use crate::Options;

/// Criterion of success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Source {
    Answer,
    Fact,
    Reward,
}

/// Whether the seat succeeded.
pub fn correct(trajectory: &Trajectory, seat: u32, options: &Options) -> Result<bool, Error> {
    match options.correct_by {
        Source::Fact => by_fact(trajectory, options),
        Source::Reward => Ok(by_reward(trajectory, seat, options)),
        Source::Answer => by_answer(trajectory, seat, options),
    }
}

/// Criterion of `answer-match`: the final message of an episode that the environment ended.
fn by_answer(trajectory: &Trajectory, seat: u32, options: &Options) -> Result<bool, Error> {
    let key = &options.answer_key;
    let wanted = trajectory.privileged(key).ok_or_else(|| {
        let advice = "set `answer-key` to the name of the fact with the answer, or `correct-by` to `fact` or `reward`";
        Error::invalid(format!("the environment has no privileged fact `{key}`: {advice}"))
    })?;
    let said = trajectory.last_message(seat).filter(|_| trajectory.ending == Ending::Terminated);
    Ok(said.is_some_and(|(_, text)| find_accepted(&text, wanted, options.mode).is_some()))
}

/// Extra of the environment's last step. An episode that was truncated may lack it.
fn by_fact(trajectory: &Trajectory, options: &Options) -> Result<bool, Error> {
    let name = &options.fact;
    match trajectory.extra(name) {
        Some(Value::Flag(flag)) => Ok(*flag),
        Some(Value::Integer(integer)) => Ok(*integer as f64 >= options.threshold),
        Some(Value::Number(number)) => Ok(*number >= options.threshold),
        Some(other) => {
            let shown = other.shown();
            Err(Error::invalid(format!(
                "the environment's extra `{name}` is `{shown}`: set `fact` to the name of a flag or a number"
            )))
        }
        None if trajectory.ending == Ending::Terminated => {
            let advice = "set `fact` to an existing name, or `correct-by` to `answer` or `reward`";
            Err(Error::invalid(format!("the environment ended the episode without an extra `{name}`: {advice}")))
        }
        None => Ok(false),
    }
}

/// Sum of the seat's environment rewards.
fn by_reward(trajectory: &Trajectory, seat: u32, options: &Options) -> bool {
    let of_seat = trajectory.environment_rewards.iter().filter(|rewards| rewards.seat == seat);
    of_seat.flat_map(|rewards| &rewards.rewards).sum::<f64>() >= options.threshold
}
