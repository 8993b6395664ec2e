//! A right answer is worth more the fewer tool calls it took, and a wrong one is worth nothing (OTC, Wang et al. 2025,
//! "Acting Less is Reasoning More!").
//!
//! The total is `weight × correct × efficiency`. How efficient an attempt was is told by one of the paper's two formulas:
//! `grpo` compares with the fewest calls among the right attempts of the group, `ppo` looks at each attempt alone. The
//! paper remembers a task's fewest calls for the whole training; a reward has no memory, by the contract, so that the
//! same group always has the same scores. An environment that knows the fewest calls says so in its privileged view,
//! and `fewest-key` names that fact.
//!
//! A reward sees no other reward's score. What decides correctness is therefore an option: the privileged answer,
//! compared as `answer-match` compares; an extra of the environment's last step; or the sum of the environment's rewards.
//! In a run with this reward, give `answer-match` and its like the weight 0, else the answer is paid for twice.

mod correct;
mod formula;

use gymkhana_answer as answer;
use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory, Turn};
use gymkhana_sdk::{Error, OptionInfo, Options, Value, plugin};

/// Multiplies correctness by how few calls it took.
pub struct ToolEfficiency;

/// One seat of one attempt.
struct Attempt {
    seat: u32,
    correct: bool,
    calls: usize,
}

impl Reward for ToolEfficiency {
    fn info() -> Info {
        let only = "The functions that count as tools, separated by commas; empty when all count. Name them where the \
                    environment has functions of its own";
        let threshold = "What a number must reach to mean success, when `correct-by` is `fact` or `reward`";
        let fewest = "The privileged fact that tells the fewest calls the task needs; empty when none does";
        Info::new("A right answer times how few calls it took, as in OTC")
            .component("correct", "1 when the attempt succeeded, else 0")
            .component("calls", "tool calls that the seat made")
            .component("efficiency", "what that number of calls is worth, from 0 to 1")
            .component("fewest", "the fewest calls to compare with, -1 when there are none to compare with")
            .option(OptionInfo::new("method", "Which of OTC's formulas", "grpo").one_of(&["grpo", "ppo"]))
            .option(
                OptionInfo::new("smoothness", "The c of cos(mπ/(2m+c)), in calls; more is milder", 4.0)
                    .within(0.01, 1000.0),
            )
            .option(
                OptionInfo::new("weight", "What a right attempt with the fewest calls is worth", 1.0).within(0.0, 1.0),
            )
            .option(OptionInfo::new("functions", only, ""))
            .option(OptionInfo::new("fewest-key", fewest, ""))
            .option(OptionInfo::new("correct-by", "What decides success", "answer").one_of(&correct::SOURCES))
            .option(OptionInfo::new("answer-key", "The privileged fact that is the answer", "answer"))
            .option(OptionInfo::new("mode", "How answers are compared", "auto").one_of(&answer::MODES))
            .option(OptionInfo::new("fact", "The extra of the last step that tells of success", "success"))
            .option(OptionInfo::new("threshold", threshold, 0.5))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let attempts: Vec<Vec<Attempt>> =
            group.iter().map(|trajectory| attempts(trajectory, options)).collect::<Result<_, _>>()?;
        let known = match options.text("fewest-key") {
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

/// The turns in which a seat called a function that counts. A malformed call counts when all do: it was an attempt.
fn tool_calls<'a>(
    trajectory: &'a Trajectory,
    seat: u32,
    options: &'a Options,
) -> impl Iterator<Item = (usize, &'a str)> {
    let only = options.text("functions");
    let counts = move |name: &str| only.is_empty() || only.split(',').any(|one| one.trim() == name);
    trajectory.turns.iter().enumerate().filter_map(move |(place, turn)| match turn {
        Turn::Call(made) if made.seat == seat && counts(&made.call.name) => Some((place, &*made.call.arguments)),
        _ => None,
    })
}

fn known_fewest(trajectory: &Trajectory, key: &str) -> Result<usize, Error> {
    let wrong = |found: &str| {
        let advice = "name a whole number of calls in `fewest-key`, or leave it empty";
        Error::invalid(format!("the privileged fact `{key}` {found}: {advice}"))
    };
    match trajectory.privileged(key) {
        Some(Value::Integer(calls)) => usize::try_from(*calls).map_err(|_| wrong(&format!("is {calls}"))),
        Some(other) => Err(wrong(&format!("is `{}`", other.shown()))),
        None => Err(wrong("is not there")),
    }
}

fn score(attempt: &Attempt, fewest: Option<usize>, trajectory: &Trajectory, options: &Options) -> Score {
    let smoothness = options.number("smoothness");
    let efficiency = match (options.text("method"), fewest) {
        ("grpo", Some(fewest)) => formula::beside(attempt.calls, fewest, smoothness),
        // Nobody succeeded, so that there is nothing to compare with, nor anything to multiply.
        _ => formula::alone(attempt.calls, smoothness),
    };
    let correct = f64::from(u8::from(attempt.correct));
    let total = (options.number("weight") * correct * efficiency).clamp(0.0, 1.0);
    let score = Score::new(attempt.seat, total)
        .component("correct", correct)
        .component("calls", attempt.calls as f64)
        .component("efficiency", efficiency)
        .component("fewest", fewest.map_or(-1.0, |fewest| fewest as f64));
    // Where calls made a right answer worth less: those beyond the fewest.
    let spare = if attempt.correct { fewest.unwrap_or(0) } else { attempt.calls };
    let beyond = tool_calls(trajectory, attempt.seat, options).skip(spare);
    beyond.fold(score, |score, (turn, arguments)| score.evidence(turn, 0..arguments.len(), "a call beyond the fewest"))
}

plugin! { reward: ToolEfficiency }

#[cfg(test)]
mod tests;
