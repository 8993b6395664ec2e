//! Is the last message's answer mathematically equal to the environment's privileged `answer`?
//!
//! The answer is looked for in the last box, else behind the last `answer is`, `answer:` or `####`, else at the end of
//! the message; `look-in` can demand one of these. It is read as LaTeX or plain text: numbers with decimals, thousands'
//! separators, repeated decimals and percent; fractions and mixed numbers; roots, powers, factorials, logarithms and
//! trigonometry; variables; tuples, intervals, sets, lists and matrices; equations and inequalities; `±`; words.
//!
//! Two answers are equal by the first of these rules that can tell, and the component `rule` says which: the same text;
//! exact algebra (fractions of polynomials over the rational numbers, in which the roots of primes and `i` are known);
//! values at points that a seed of the host chooses, where both have a value, with 256 bits; nearness, if `tolerance`
//! allows it. What is too large to decide is not equal: the work is bounded, whatever an agent writes.
//!
//! Choices that one could make otherwise: `log` is to the base ten; `e` and `i` are constants; a comma in front of
//! exactly three digits separates thousands unless it stands in brackets; a list without brackets is a set; `x = 5`
//! and `6·7 = 42` say what their last side says, if no side contradicts; roots of odd degree are real.

mod equal;
mod expression;
mod find;
mod fixed;
mod lexer;
mod normal;
mod numeric;
mod parser;
mod polynomial;
mod tree;
mod words;

use gymkhana_sdk::reward::{Ending, Info, Reward, Score, Trajectory, each_seat};
use gymkhana_sdk::{Error, OptionInfo, Options, plugin, random};

use equal::{Settings, verify};

/// Compares mathematical answers.
pub struct MathVerify;

impl Reward for MathVerify {
    fn info() -> Info {
        let look = "Where the answer is looked for: auto is a box, else behind a mark, else the end of the message";
        let rule =
            "what decided: 0 nothing was found, 1 text, 2 exact algebra, 3 values at points, 4 nearness, 5 undecided";
        let tolerance = "How far a number may be from the right one, as a share of it";
        Info::new("1 when the last message's answer is mathematically equal to the privileged `answer`")
            .component("correct", "1 when the answer is equal, else 0")
            .component("parsed", "1 when an answer was found and read as mathematics, else 0")
            .component("rule", rule)
            .option(OptionInfo::new("answer-key", "The privileged fact that is the answer", "answer"))
            .option(OptionInfo::new("look-in", look, "auto").one_of(&find::PLACES))
            .option(
                OptionInfo::new("units", "Whether words behind a number count", "ignore")
                    .one_of(&["ignore", "compare"]),
            )
            .option(OptionInfo::new("tolerance", tolerance, 0.0).within(0.0, 0.5))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let key = options.text("answer-key");
        let settings = Settings {
            units: options.text("units") == "compare",
            tolerance: options.number("tolerance"),
            seed: random::next(),
        };
        each_seat(group, |trajectory, seat| {
            let wanted =
                trajectory.privileged(key).map(gymkhana_sdk::Value::shown).filter(|wanted| !wanted.trim().is_empty());
            let wanted = wanted.ok_or_else(|| {
                let advice = "name the fact that is the answer in `answer-key`";
                Error::invalid(format!("the environment's privileged view has no `{key}` to compare with: {advice}"))
            })?;
            // An episode that was cut off has no last word, whatever was said before.
            let said = trajectory.last_message(seat).filter(|_| trajectory.ending == Ending::Terminated);
            let found = said.and_then(|(turn, text)| {
                find::find(&text, options.text("look-in"))
                    .map(|span| (turn, verify(&text[span.clone()], &wanted, settings), span))
            });
            Ok(score(seat, found))
        })
    }
}

fn score(seat: u32, found: Option<(usize, equal::Verdict, std::ops::Range<usize>)>) -> Score {
    let number = |flag: bool| f64::from(u8::from(flag));
    let Some((turn, verdict, span)) = found else {
        return Score::new(seat, 0.0).component("correct", 0.0).component("parsed", 0.0).component("rule", 0.0);
    };
    let note = format!("{}, {}", if verdict.equal { "equal" } else { "not equal" }, verdict.rule.words());
    Score::new(seat, number(verdict.equal))
        .component("correct", number(verdict.equal))
        .component("parsed", number(verdict.parsed))
        .component("rule", verdict.rule.number())
        .evidence(turn, span, note)
}

plugin! { reward: MathVerify }

#[cfg(test)]
mod tests;
