//! Reward for calls that match the task's expected calls (ToolRL, Qian et al. 2025).
//!
//! The environment's privileged view contains the expected calls, as a JSON list of `{"name": …, "arguments": {…}}`.
//! The total is that of the paper: `format + correctness`. Format is 1 if every call is well formed and calls exist
//! exactly if some are expected. Correctness is `6 · S / S_max − 3`. `S` sums the overlap of names (intersection over
//! union) and, for each pair of an expected and an actual call with equal names, the overlap of parameter names and the
//! number of equal values. Equal calls give 3, and disjoint calls −3. If no call is expected, correctness is 0.
//!
//! Calls of one turn have no order and are paired so that `S` is maximal. The paper's program pairs them greedily, as
//! `pairing = "greedy"` does. A malformed call has no name, matches nothing and counts as missing.

mod assign;
mod call;
mod matching;

use gymkhana_sdk::reward::{Info, Reward, Score, SeatCall, Trajectory, Turn, each_seat};
use gymkhana_sdk::{Error, OptionValue, PluginOptions, Value, plugin};

use call::Call;
use matching::{Matching, Pairing, Weights};

/// Maximum number of calls per seat that are compared; the host's limit is lower.
const MAX_MADE: usize = 1024;

/// Compared calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Which {
    All,
    FirstTurn,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Name of the privileged fact with the expected calls
    #[option(default = "calls")]
    expected_key: String,
    /// Compared calls: all, or only those of the first turn, as in the paper
    #[option(default = Which::All)]
    which: Which,
    /// Pairing of expected and actual calls: optimal or greedy
    #[option(default = Pairing::Best)]
    pairing: Pairing,
    /// Maximum correctness, in points
    #[option(default = 3.0, range = 0.0..=3.0)]
    scale: f64,
    /// Weight of the format, in points
    #[option(default = 1.0, range = 0.0..=1.0)]
    format_weight: f64,
    /// Weight of the overlap of function names
    #[option(default = 1.0, range = 0.0..=1000.0)]
    name_weight: f64,
    /// Weight of the parameter names of a call
    #[option(default = 1.0, range = 0.0..=1000.0)]
    parameter_weight: f64,
    /// Weight of a value
    #[option(default = 1.0, range = 0.0..=1000.0)]
    value_weight: f64,
}

/// Compares the calls of a seat with the expected ones.
pub struct ToolMatch;

impl Reward for ToolMatch {
    type Options = Options;

    fn info() -> Info {
        Info::new("Match between actual and expected calls, as in ToolRL")
            .component("format", "1 if the calls are well formed and exist exactly if some are expected, else 0")
            .component("correctness", "match from -scale to scale; 0 if no call is expected")
            .component("names", "overlap of function names, from 0 to 1")
            .component("parameters", "overlap of parameter names, summed over pairs of calls")
            .component("values", "number of equal values")
            .component("calls", "number of compared calls")
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let key = &options.expected_key;
        let (name, parameter, value) = (options.name_weight, options.parameter_weight, options.value_weight);
        let weights = Weights { name, parameter, value };
        if weights.name + weights.parameter + weights.value == 0.0 {
            return Err(Error::invalid("one of `name-weight`, `parameter-weight` and `value-weight` must be above 0"));
        }
        each_seat(group, |trajectory, seat| {
            let expected = Call::expected(&listed(trajectory, key)?, key)?;
            let made = made(trajectory, seat, options.which == Which::FirstTurn);
            Ok(score(seat, &made, &expected, weights, options))
        })
    }
}

fn listed(trajectory: &Trajectory, key: &str) -> Result<String, Error> {
    match trajectory.privileged(key) {
        Some(Value::Text(text) | Value::Other(text)) => Ok(text.clone()),
        Some(other) => {
            Err(Error::invalid(format!("the privileged `{key}` is `{}`, not a JSON list of calls", other.shown())))
        }
        None => Err(Error::invalid(format!(
            "the environment has no privileged fact `{key}`: set `expected-key` to the fact with the expected calls"
        ))),
    }
}

/// Calls of a seat with the indices of their turns; the first turn ends with the first answer.
fn made(trajectory: &Trajectory, seat: u32, first_turn: bool) -> Vec<(usize, &SeatCall)> {
    let of_seat = |turn: &Turn| matches!(turn, Turn::Call(made) if made.seat == seat);
    let begins = trajectory.turns.iter().position(of_seat).unwrap_or(trajectory.turns.len());
    let here = trajectory.turns.iter().enumerate().skip(begins);
    let here = here.take_while(|(_, turn)| !first_turn || of_seat(turn));
    let calls = here.filter_map(|(place, turn)| match turn {
        Turn::Call(made) if made.seat == seat => Some((place, made)),
        _ => None,
    });
    calls.take(MAX_MADE).collect()
}

fn score(seat: u32, made: &[(usize, &SeatCall)], expected: &[Call], weights: Weights, options: &Options) -> Score {
    let sound: Vec<(usize, Call)> = made
        .iter()
        .filter_map(|(place, made)| Call::made(&made.call.name, &made.call.arguments).map(|call| (*place, call)))
        .collect();
    let formed = sound.len() == made.len() && made.is_empty() == expected.is_empty();
    let format = f64::from(u8::from(formed));
    let calls: Vec<Call> = sound.iter().map(|(_, call)| call.clone()).collect();
    let found = match expected {
        [] => Matching { names: 0.0, parameters: 0.0, values: 0.0, share: 0.5, pairs: vec![] },
        _ => matching::hold(&calls, expected, weights, options.pairing),
    };
    let correctness = options.scale * (2.0 * found.share - 1.0);
    let score = Score::new(seat, options.format_weight * format + correctness)
        .component("format", format)
        .component("correctness", correctness)
        .component("names", found.names)
        .component("parameters", found.parameters)
        .component("values", found.values)
        .component("calls", made.len() as f64);
    let places = found.pairs.iter().enumerate().filter_map(|(wanted, pair)| pair.map(|pair| (wanted, sound[pair].0)));
    places.fold(score, |score, (wanted, place)| {
        let length = made.iter().find(|(turn, _)| *turn == place).map_or(0, |(_, made)| made.call.arguments.len());
        score.evidence(place, 0..length, format!("compared with expected call {}", wanted + 1))
    })
}

plugin! { reward: ToolMatch }

#[cfg(test)]
mod tests;
