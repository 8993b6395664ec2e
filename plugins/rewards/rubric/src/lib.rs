//! A checklist with weights, each item decided by a rule or by the run's `model`.
//!
//! The checklist is the option `checklist`, or else a privileged fact of the environment, so that each task may have its
//! own. It is TOML or JSON:
//!
//! ```toml
//! [[items]]
//! name = "books"
//! essential = true            # without it nothing counts
//! must-call = "book"
//!
//! [[items]]
//! name = "rude"
//! weight = -2                 # what should not be met
//! ask = "Is the text rude?"   # for the model: yes or no; `grade` asks for 0 to 10
//!
//! [[items]]
//! name = "short"
//! in = "all"                  # every message; the last word by default
//! max-words = 80
//! ```
//!
//! Rules: `contains`, `not-contains` (whatever the case), `max-words`, `must-call`, `must-not-call`, `json-valid`,
//! `number-within = [low, high]` (the last number). The total is what was met, weighted, as a share of what can be
//! earned: `Σ weight · met / Σ positive weights` (RuscaRL), kept within 0 and 1, or within −1 and 1 by the option
//! `lowest`. An essential item that is not met gives the lowest total.
//!
//! The manifest asks for `model` as something that it can do without: where no item is for a model, no grant is needed;
//! where one is and the run grants none, the item's error says so. How the judge is kept
//! from hearing the agent as its master, and what that cannot do, stands in `judge.rs`. A judge that gives no verdict is
//! an error that names the item.

mod checklist;
mod judge;
mod rule;

use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory};
use gymkhana_sdk::{Error, OptionInfo, Options, model, plugin};

use checklist::Item;

/// Adds up what of a checklist is met.
pub struct Rubric;

impl Reward for Rubric {
    fn info() -> Info {
        let checklist = "The items, as TOML or JSON; empty to take them from the environment's privileged view";
        let key = "The privileged fact that is the checklist, where the option `checklist` is empty";
        let longest = "The most bytes of a seat's words that a model is shown; more are cut in the middle";
        Info::new("A checklist, each item decided by a rule or by a model")
            .component("met", "the weight of what was met as a share of what can be earned, before limits")
            .component("items", "items of the checklist")
            .component("items-met", "items that were met, parts of graded ones included")
            .component("essential-missed", "essential items that were not met")
            .component("asked", "questions to the model")
            .option(OptionInfo::new("checklist", checklist, ""))
            .option(OptionInfo::new("checklist-key", key, "rubric"))
            .option(OptionInfo::new("lowest", "The lowest total", "zero").one_of(&["zero", "minus-one"]))
            .option(OptionInfo::new("quote-bytes", longest, 20_000).within(100.0, 1e6))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        score_by(group, options, &mut model::complete)
    }
}

/// As [`Reward::score`], by whoever answers for the model.
fn score_by(group: &[Trajectory], options: &Options, ask: judge::Ask<'_>) -> Result<Vec<Vec<Score>>, Error> {
    let written = options.text("checklist");
    // Read even if there is nothing to score, so that a mistake is known before a run begins.
    let shared =
        if written.trim().is_empty() { None } else { Some(checklist::read(written, "the option `checklist`")?) };
    let mut scores = Vec::new();
    for trajectory in group {
        let items = match &shared {
            Some(items) => items.clone(),
            None => own_items(trajectory, options.text("checklist-key"))?,
        };
        let one = |seat| score(trajectory, seat, &items, options, ask);
        scores.push(trajectory.seats().into_iter().map(one).collect::<Result<_, _>>()?);
    }
    Ok(scores)
}

/// The task's own checklist.
fn own_items(trajectory: &Trajectory, key: &str) -> Result<Vec<Item>, Error> {
    match trajectory.privileged(key) {
        Some(value) => checklist::read(&value.shown(), &format!("the privileged `{key}`")),
        None => Err(Error::invalid(format!(
            "there is no checklist: write one in the option `checklist`, or name in `checklist-key` the privileged fact \
             that is one; this environment has no `{key}`"
        ))),
    }
}

fn score(
    trajectory: &Trajectory,
    seat: u32,
    items: &[Item],
    options: &Options,
    ask: judge::Ask<'_>,
) -> Result<Score, Error> {
    let longest = options.integer("quote-bytes") as usize;
    let (mut earned, mut met_items, mut missed, mut asked) = (0.0, 0.0, 0_u32, 0_u32);
    let mut evidence = Vec::new();
    for item in items {
        let said = rule::said(trajectory, seat, item.place);
        let met = match rule::decide(&item.rule, &said, trajectory, seat) {
            Some(found) => {
                let verdict = if found.met { "met" } else { "not met" };
                evidence.extend(found.span.map(|(turn, span)| (turn, span, format!("{}: {verdict}", item.name))));
                f64::from(u8::from(found.met))
            }
            // Nothing was said: there is nothing to ask about.
            None if said.is_empty() => 0.0,
            None => {
                let words: Vec<&str> = said.iter().map(|said| said.text.as_str()).collect();
                asked += 1;
                judge::judge(item, &words.join("\n\n"), longest, ask)?
            }
        };
        earned += item.weight * met;
        met_items += met;
        missed += u32::from(item.essential && met == 0.0);
    }
    let most: f64 = items.iter().map(|item| item.weight.max(0.0)).sum();
    let share = earned / most;
    let lowest = if options.text("lowest") == "zero" { 0.0 } else { -1.0 };
    let total = if missed > 0 { lowest } else { share.clamp(lowest, 1.0) };
    let score = Score::new(seat, total)
        .component("met", share)
        .component("items", items.len() as f64)
        .component("items-met", met_items)
        .component("essential-missed", f64::from(missed))
        .component("asked", f64::from(asked));
    Ok(evidence.into_iter().fold(score, |score, (turn, span, note)| score.evidence(turn, span, note)))
}

plugin! { reward: Rubric }

#[cfg(test)]
mod tests;
