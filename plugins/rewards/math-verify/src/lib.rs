//! Reward for a final message whose answer is mathematically equal to the environment's privileged `answer`.
//!
//! The answer is the content of the last `<answer>` tag, else of the last box, else the value behind the last `answer
//! is`, `answer:` or `####`, else the end of the message; `look-in` restricts the search. The module `find` has the
//! grammar of what may stand around a value. The answer is parsed as LaTeX or plain text: numbers with decimals,
//! thousands separators, repeating decimals and percent; fractions and mixed numbers; roots, powers, factorials,
//! logarithms and trigonometry; variables; tuples, intervals, sets, lists and matrices; equations and inequalities;
//! residues; `±`; words.
//!
//! Around a number stand, without an effect on equality:
//!
//! ```text
//! quantity = CURRENCY? number SCALE? UNIT?
//! CURRENCY = a sign or a code: $ € ¥ USD …           SCALE = percent, thousand, million, squared, thirds …: its value counts
//! UNIT     = words, "°C", "m/s", "GB", "a day" …     a letter is one if the other answer has no variable, and in \\text{}
//! ```
//!
//! Digits and letters may be those of other scripts, full-width, raised or lowered. Inequalities, absolute values, turned
//! brackets and words for all real numbers are the sets that they describe: `or` is a union, `and` an intersection. Of
//! `a ≈ b` either side counts, if one is the other one rounded. If the expected answer is a letter from `A` to `J`, the
//! letter of `(B) 42` or `option B` counts. If it is a JSON list of texts, each of them is right.
//!
//! The first of these rules that can decide determines equality, and the component `rule` reports it: equal text; exact
//! algebra (rational functions over the rational numbers, extended by square roots of primes and `i`); values with 256
//! bits at points drawn from a seed of the host, where both have a value; closeness, if `tolerance` allows it.
//! Undecidably large answers count as not equal: the work is bounded for every input.
//!
//! Conventions: `log` has base ten; `e` and `i` are constants; a comma before exactly three digits separates thousands
//! unless it is in brackets; a list without brackets is a set; `x = 5` and `6·7 = 42` have the value of their last side
//! if all sides agree; roots of odd degree are real.

mod equal;
mod expression;
mod find;
mod fixed;
mod lexer;
mod normal;
mod notation;
mod numeric;
mod parser;
mod polynomial;
mod solutions;
mod tree;
mod words;

use gymkhana_answer::accepted;
use gymkhana_sdk::reward::{Ending, Info, Reward, Score, Trajectory, each_seat};
use gymkhana_sdk::{Error, OptionValue, PluginOptions, plugin, random};

use equal::{Settings, verify};
use find::Place;

/// Treatment of words after a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Units {
    Ignore,
    Compare,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Name of the privileged fact with the answer
    #[option(default = "answer")]
    answer_key: String,
    /// Location of the answer: auto is a tag or a box, else after a mark, else the end of the message
    #[option(default = Place::Auto)]
    look_in: Place,
    /// Treatment of words after a number
    #[option(default = Units::Ignore)]
    units: Units,
    /// Tolerance of numbers, relative to the expected number
    #[option(default = 0.0, range = 0.0..=0.5)]
    tolerance: f64,
}

/// Compares mathematical answers.
pub struct MathVerify;

impl Reward for MathVerify {
    type Options = Options;

    fn info() -> Info {
        let rule =
            "deciding rule: 0 no answer found, 1 text, 2 exact algebra, 3 values at points, 4 closeness, 5 undecided";
        Info::new("1 if the final message's answer is mathematically equal to the privileged `answer`")
            .component("correct", "1 if the answer is equal, else 0")
            .component("parsed", "1 if an answer was found and parsed as mathematics, else 0")
            .component("rule", rule)
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let &Options { answer_key: ref key, look_in, units, tolerance } = options;
        let settings = Settings { units: units == Units::Compare, tolerance, seed: random::next() };
        each_seat(group, |trajectory, seat| {
            let wanted = trajectory.privileged(key).map(accepted).unwrap_or_default();
            let wanted: Vec<String> = wanted.into_iter().filter(|wanted| !wanted.trim().is_empty()).collect();
            let first = wanted.first().ok_or_else(|| {
                let advice = "set `answer-key` to the name of the fact with the answer";
                Error::invalid(format!("the environment has no privileged fact `{key}`: {advice}"))
            })?;
            // An episode that the environment did not end has no final answer.
            let said = trajectory.last_message(seat).filter(|_| trajectory.ending == Ending::Terminated);
            let found = said.and_then(|(turn, text)| {
                let span = find::find(&text, look_in)?;
                let verdicts = wanted.iter().map(|wanted| verify(&text[span.clone()], wanted, settings));
                let verdict = verdicts.into_iter().find(|verdict| verdict.equal);
                Some((turn, verdict.unwrap_or_else(|| verify(&text[span.clone()], first, settings)), span))
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
