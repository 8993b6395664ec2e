//! Whether an attempt succeeded, by what the run says decides it.
//!
//! A reward sees no other reward's score, and what OTC multiplies must be known here; so this one judges by itself.

use gymkhana_answer as answer;
use gymkhana_sdk::reward::{Ending, Trajectory};
use gymkhana_sdk::{Error, Options, Value};

/// What decides, as the option writes it.
pub const SOURCES: [&str; 3] = ["answer", "fact", "reward"];

/// Whether the seat succeeded.
pub fn correct(trajectory: &Trajectory, seat: u32, options: &Options) -> Result<bool, Error> {
    match options.text("correct-by") {
        "fact" => by_fact(trajectory, options),
        "reward" => Ok(by_reward(trajectory, seat, options)),
        _ => by_answer(trajectory, seat, options),
    }
}

/// As `answer-match` has it: the last word of an episode that was not cut off.
fn by_answer(trajectory: &Trajectory, seat: u32, options: &Options) -> Result<bool, Error> {
    let key = options.text("answer-key");
    let wanted = trajectory.privileged(key).ok_or_else(|| {
        let advice = "set `answer-key` to what the environment calls it, or `correct-by` to `fact` or `reward`";
        Error::invalid(format!("the environment's privileged view has no `{key}` to compare with: {advice}"))
    })?;
    let said = trajectory.last_message(seat).filter(|_| trajectory.ending == Ending::Terminated);
    Ok(said.is_some_and(|(_, text)| answer::find(&text, &wanted.shown(), options.text("mode")).is_some()))
}

/// What the environment said with its last step. An episode that was cut off before may have said nothing.
fn by_fact(trajectory: &Trajectory, options: &Options) -> Result<bool, Error> {
    let name = options.text("fact");
    match trajectory.extra(name) {
        Some(Value::Flag(flag)) => Ok(*flag),
        Some(Value::Integer(integer)) => Ok(*integer as f64 >= options.number("threshold")),
        Some(Value::Number(number)) => Ok(*number >= options.number("threshold")),
        Some(other) => {
            let shown = other.shown();
            Err(Error::invalid(format!(
                "the environment's extra `{name}` is `{shown}`: name a flag or a number in `fact`"
            )))
        }
        None if trajectory.ending == Ending::Terminated => {
            let advice = "name one that it has in `fact`, or set `correct-by` to `answer` or `reward`";
            Err(Error::invalid(format!("the environment ended the episode without an extra `{name}`: {advice}")))
        }
        None => Ok(false),
    }
}

/// The sum of what the environment paid the seat.
fn by_reward(trajectory: &Trajectory, seat: u32, options: &Options) -> bool {
    let of_seat = trajectory.environment_rewards.iter().filter(|rewards| rewards.seat == seat);
    of_seat.flat_map(|rewards| &rewards.rewards).sum::<f64>() >= options.number("threshold")
}
