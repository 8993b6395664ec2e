//! Reward for correct answers with few tool calls; wrong answers earn 0 (OTC, Wang et al. 2025, "Acting Less is
//! Reasoning More!").
//!
//! The total is `weight × correct × efficiency`. The paper has two formulas for efficiency: `grpo` compares with the
//! minimum number of calls among the correct attempts of the group, and `ppo` considers each attempt alone. The paper
//! stores the minimum of each task during training. By the contract a reward has no memory, so equal groups get equal
//! scores. An environment that knows the minimum can state it as a privileged fact, which `fewest-key` names.
//!
//! A reward cannot see the scores of other rewards, so an option selects the criterion of success: the privileged
//! answer, compared as in `answer-match`; an extra of the environment's last step; or the sum of the environment's
//! rewards. In a run with this reward, set the weight of `answer-match` and similar rewards to 0, so that an answer is
//! not paid twice.

mod correct;
mod formula;

use gymkhana_answer::Mode;
use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory, Turn};
use gymkhana_sdk::{Error, OptionValue, PluginOptions, Value, plugin};

use correct::Source;

/// Efficiency formula of OTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Method {
    Grpo,
    Ppo,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Efficiency formula of OTC
    #[option(default = Method::Grpo)]
    method: Method,
    /// Parameter c of cos(mπ/(2m+c)), in calls; larger is milder
    #[option(default = 4.0, range = 0.01..=1000.0)]
    smoothness: f64,
    /// Reward of a correct attempt with the minimum of calls
    #[option(default = 1.0, range = 0.0..=1.0)]
    weight: f64,
    /// Names of the functions that count as tools, separated by commas; empty for all. Set it if the environment has
    /// functions
    #[option(default = "")]
    functions: String,
    /// Name of the privileged fact with the task's minimum number of calls; empty if there is none
    #[option(default = "")]
    fewest_key: String,
    /// Criterion of success
    #[option(default = Source::Answer)]
    correct_by: Source,
    /// Name of the privileged fact with the answer
    #[option(default = "answer")]
    answer_key: String,
    /// Comparison of answers
    #[option(default = Mode::Auto)]
    mode: Mode,
    /// Name of the last step's extra that states success
    #[option(default = "success")]
    fact: String,
    /// Minimum number that means success, if `correct-by` is `fact` or `reward`
    #[option(default = 0.5)]
    threshold: f64,
}

/// Multiplies success by the efficiency of tool calls.
pub struct ToolEfficiency;

/// Seat of an attempt.
struct Attempt {
    seat: u32,
    correct: bool,
    calls: usize,
}

impl Reward for ToolEfficiency {
    type Options = Options;

    fn info() -> Info {
        Info::new("Success times the efficiency of tool calls, as in OTC")
            .component("correct", "1 if the attempt succeeded, else 0")
            .component("calls", "number of tool calls of the seat")
            .component("efficiency", "value of that number of calls, from 0 to 1")
            .component("fewest", "minimum number of calls for comparison, -1 if unknown")
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let attempts: Vec<Vec<Attempt>> =
            group.iter().map(|trajectory| attempts(trajectory, options)).collect::<Result<_, _>>()?;
        let known = match options.fewest_key.as_str() {
            "" => None,
            key => group.first().map(|trajectory| known_fewest(trajectory, key)).transpose()?,
        };
        let score = |attempt: &Attempt, trajectory: &Trajectory| {
            let right = attempts.iter().flatten().filter(|other| other.correct && other.seat == attempt.seat);
            let fewest = right.map(|other| other.calls).chain(known).min();
            score(attempt, fewest, trajectory, options)
        };
        let pairs = attempts.iter().zip(group);
        Ok(pairs.map(|(seats, trajectory)| seats.iter().map(|seat| score(seat, trajectory)).collect()).collect())
    }
}

fn attempts(trajectory: &Trajectory, options: &Options) -> Result<Vec<Attempt>, Error> {
    let one = |seat| {
        let calls = tool_calls(trajectory, seat, options).count();
        Ok(Attempt { seat, correct: correct::correct(trajectory, seat, options)?, calls })
    };
    trajectory.seats().into_iter().map(one).collect()
}

/// Turns of a seat's counted calls. A malformed call counts if all functions count, because it was an attempt.
fn tool_calls<'a>(
    trajectory: &'a Trajectory,
    seat: u32,
    options: &'a Options,
) -> impl Iterator<Item = (usize, &'a str)> {
    let only = options.functions.as_str();
    let counts = move |name: &str| only.is_empty() || only.split(',').any(|one| one.trim() == name);
    trajectory.turns.iter().enumerate().filter_map(move |(place, turn)| match turn {
        Turn::Call(made) if made.seat == seat && counts(&made.call.name) => Some((place, &*made.call.arguments)),
        _ => None,
    })
}

fn known_fewest(trajectory: &Trajectory, key: &str) -> Result<usize, Error> {
    let wrong = |found: &str| {
        let advice = "set `fewest-key` to a fact with a whole number of calls, or leave it empty";
        Error::invalid(format!("the privileged fact `{key}` {found}: {advice}"))
    };
    match trajectory.privileged(key) {
        Some(Value::Integer(calls)) => usize::try_from(*calls).map_err(|_| wrong(&format!("is {calls}"))),
        Some(other) => Err(wrong(&format!("is `{}`", other.shown()))),
        None => Err(wrong("is not there")),
    }
}

fn score(attempt: &Attempt, fewest: Option<usize>, trajectory: &Trajectory, options: &Options) -> Score {
    let &Options { method, smoothness, weight, .. } = options;
    let efficiency = match (method, fewest) {
        (Method::Grpo, Some(fewest)) => formula::beside(attempt.calls, fewest, smoothness),
        // Without a successful attempt there is no minimum and all totals are 0.
        _ => formula::alone(attempt.calls, smoothness),
    };
    let correct = f64::from(u8::from(attempt.correct));
    let total = (weight * correct * efficiency).clamp(0.0, 1.0);
    let score = Score::new(attempt.seat, total)
        .component("correct", correct)
        .component("calls", attempt.calls as f64)
        .component("efficiency", efficiency)
        .component("fewest", fewest.map_or(-1.0, |fewest| fewest as f64));
    // Evidence: the calls beyond the minimum, which reduced the reward.
    let spare = if attempt.correct { fewest.unwrap_or(0) } else { attempt.calls };
    let beyond = tool_calls(trajectory, attempt.seat, options).skip(spare);
    beyond.fold(score, |score, (turn, arguments)| score.evidence(turn, 0..arguments.len(), "a call beyond the fewest"))
}

plugin! { reward: ToolEfficiency }

#[cfg(test)]
mod tests;
