//! Do a seat's calls match those that the task expects (ToolRL, Qian et al. 2025)?
//!
//! The environment's privileged view holds the expected calls, as a JSON list of `{"name": …, "arguments": {…}}`. The
//! total is the paper's: `format + correctness`. Format is 1 when every call was well formed and calls were made exactly
//! where some were expected. Correctness is `6 · S / S_max − 3`, in which `S` adds names in common (as a share of those
//! in either), and for each pair of an expected and a made call of one name the parameter names in common and the number
//! of equal values. The same calls give 3 and none of them −3. Where no call is expected, correctness is 0.
//!
//! Calls of one turn have no order and are paired so that `S` is greatest; the paper's program pairs them one after the
//! other, which `pairing = "greedy"` does. A malformed call has no name, thus matches nothing, and is missed as a call.

mod assign;
mod call;
mod matching;

use gymkhana_sdk::reward::{Info, Reward, Score, SeatCall, Trajectory, Turn, each_seat};
use gymkhana_sdk::{Error, OptionInfo, Options, Value, plugin};

use call::Call;
use matching::{Matching, Pairing, Weights};

/// More calls than this of one seat are not looked at: the host's own limit is lower.
const MOST_MADE: usize = 1024;

/// Compares a seat's calls with the expected ones.
pub struct ToolMatch;

impl Reward for ToolMatch {
    fn info() -> Info {
        let weight = |name: &str, what: &str| OptionInfo::new(name, what, 1.0).within(0.0, 1000.0);
        let which = "The calls that count: all, or those of the first turn alone, as the paper has it";
        let pairing = "How expected and made calls are paired: so that the sum is greatest, or one after the other";
        Info::new("How well the calls match the expected ones, as in ToolRL")
            .component(
                "format",
                "1 when the calls are well formed and are made exactly where some are expected, else 0",
            )
            .component("correctness", "how well they match, from -scale to scale; 0 when no call is expected")
            .component("names", "names in common, as a share of those in either")
            .component("parameters", "parameter names in common, a share for each pair of calls, added up")
            .component("values", "how many values are equal")
            .component("calls", "calls that were looked at")
            .option(OptionInfo::new("expected-key", "The privileged fact that lists the expected calls", "calls"))
            .option(OptionInfo::new("which", which, "all").one_of(&["all", "first-turn"]))
            .option(OptionInfo::new("pairing", pairing, "best").one_of(&["best", "greedy"]))
            .option(OptionInfo::new("scale", "The greatest correctness, in points", 3.0).within(0.0, 3.0))
            .option(OptionInfo::new("format-weight", "What the format is worth, in points", 1.0).within(0.0, 1.0))
            .option(weight("name-weight", "What names in common weigh"))
            .option(weight("parameter-weight", "What the parameter names of a call weigh"))
            .option(weight("value-weight", "What a value weighs"))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let key = options.text("expected-key");
        let number = |name| options.number(name);
        let weights = Weights {
            name: number("name-weight"),
            parameter: number("parameter-weight"),
            value: number("value-weight"),
        };
        if weights.name + weights.parameter + weights.value == 0.0 {
            return Err(Error::invalid("one of `name-weight`, `parameter-weight` and `value-weight` must be above 0"));
        }
        each_seat(group, |trajectory, seat| {
            let expected = Call::expected(&listed(trajectory, key)?, key)?;
            let made = made(trajectory, seat, options.text("which") == "first-turn");
            Ok(score(seat, &made, &expected, weights, options))
        })
    }
}

fn listed(trajectory: &Trajectory, key: &str) -> Result<String, Error> {
    match trajectory.privileged(key) {
        Some(Value::Text(text) | Value::Other(text)) => Ok(text.clone()),
        Some(other) => {
            Err(Error::invalid(format!("the privileged `{key}` is `{}`, no JSON list of calls", other.shown())))
        }
        None => Err(Error::invalid(format!(
            "the environment's privileged view has no `{key}`: name the fact that lists the expected calls in `expected-key`"
        ))),
    }
}

/// A seat's calls with the places of their turns; the first turn is over when an answer comes.
fn made(trajectory: &Trajectory, seat: u32, first_turn: bool) -> Vec<(usize, &SeatCall)> {
    let of_seat = |turn: &Turn| matches!(turn, Turn::Call(made) if made.seat == seat);
    let begins = trajectory.turns.iter().position(of_seat).unwrap_or(trajectory.turns.len());
    let here = trajectory.turns.iter().enumerate().skip(begins);
    let here = here.take_while(|(_, turn)| !first_turn || of_seat(turn));
    let calls = here.filter_map(|(place, turn)| match turn {
        Turn::Call(made) if made.seat == seat => Some((place, made)),
        _ => None,
    });
    calls.take(MOST_MADE).collect()
}

fn score(seat: u32, made: &[(usize, &SeatCall)], expected: &[Call], weights: Weights, options: &Options) -> Score {
    let sound: Vec<(usize, Call)> = made
        .iter()
        .filter_map(|(place, made)| Call::made(&made.call.name, &made.call.arguments).map(|call| (*place, call)))
        .collect();
    let formed = sound.len() == made.len() && made.is_empty() == expected.is_empty();
    let format = f64::from(u8::from(formed));
    let calls: Vec<Call> = sound.iter().map(|(_, call)| call.clone()).collect();
    let pairing = if options.text("pairing") == "greedy" { Pairing::Greedy } else { Pairing::Best };
    let found = match expected {
        [] => Matching { names: 0.0, parameters: 0.0, values: 0.0, share: 0.5, pairs: vec![] },
        _ => matching::hold(&calls, expected, weights, pairing),
    };
    let correctness = options.number("scale") * (2.0 * found.share - 1.0);
    let score = Score::new(seat, options.number("format-weight") * format + correctness)
        .component("format", format)
        .component("correctness", correctness)
        .component("names", found.names)
        .component("parameters", found.parameters)
        .component("values", found.values)
        .component("calls", made.len() as f64);
    let places = found.pairs.iter().enumerate().filter_map(|(wanted, pair)| pair.map(|pair| (wanted, sound[pair].0)));
    places.fold(score, |score, (wanted, place)| {
        let length = made.iter().find(|(turn, _)| *turn == place).map_or(0, |(_, made)| made.call.arguments.len());
        score.evidence(place, 0..length, format!("held against expected call {}", wanted + 1))
    })
}

plugin! { reward: ToolMatch }

#[cfg(test)]
mod tests;
