//! Weighted checklist: a rule or the run's `model` decides each item.
//!
//! The checklist is the option `checklist`, or else a privileged fact of the environment, so that each task can have a
//! separate one. Its format is TOML or JSON:
//!
//! ```toml
//! [[items]]
//! name = "books"
//! essential = true            # if not met, the total is the lowest one
//! must-call = "book"
//!
//! [[items]]
//! name = "rude"
//! weight = -2                 # undesired property
//! ask = "Is the text rude?"   # question for the model: yes or no; `grade` requests 0 to 10
//!
//! [[items]]
//! name = "short"
//! in = "all"                  # all messages (default: the final message)
//! max-words = 80
//! ```
//!
//! Rules: `contains`, `not-contains` (both ignore case), `max-words`, `must-call`, `must-not-call`, `json-valid`,
//! `number-within = [low, high]` (the last number). The total is the weighted share of met items: `Σ weight · met / Σ
//! positive weights` (RuscaRL), clamped to 0 to 1, or to −1 to 1 with the option `lowest`. An essential item that is
//! not met gives the lowest total.
//!
//! The manifest declares `model` as optional: a checklist without judged items requires no grant; otherwise a missing
//! grant is an error that names the item. `judge.rs` describes the protection of the judge against the agent's text and
//! its limits. A reply without a verdict is an error that names the item.

mod checklist;
mod judge;
mod rule;

use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory};
use gymkhana_sdk::{Error, OptionInfo, Options, model, plugin};

use checklist::Item;

/// Weighted share of met checklist items.
pub struct Rubric;

impl Reward for Rubric {
    fn info() -> Info {
        let checklist = "Items as TOML or JSON; if empty, they come from the environment's privileged view";
        let key = "Name of the privileged fact with the checklist, if the option `checklist` is empty";
        let longest =
            "Maximum length of a seat's text in the judge's prompt, in bytes; longer text is cut in the middle";
        Info::new("Weighted checklist with items decided by rules or a model")
            .component("met", "weight of the met items relative to the positive weights, before clamping")
            .component("items", "number of items")
            .component("items-met", "number of met items, including fractions of graded ones")
            .component("essential-missed", "number of essential items that were not met")
            .component("asked", "number of calls of the model")
            .option(OptionInfo::new("checklist", checklist, ""))
            .option(OptionInfo::new("checklist-key", key, "rubric"))
            .option(OptionInfo::new("lowest", "Lowest total", "zero").one_of(&["zero", "minus-one"]))
            .option(OptionInfo::new("quote-bytes", longest, 20_000).within(100.0, 1e6))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        score_by(group, options, &mut model::complete)
    }
}

/// [`Reward::score`] with a given source of the model's replies.
fn score_by(group: &[Trajectory], options: &Options, ask: judge::Ask<'_>) -> Result<Vec<Vec<Score>>, Error> {
    let written = options.text("checklist");
    // Parsed even if there is nothing to score, so that mistakes are found before a run starts.
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

/// Checklist of the task.
fn own_items(trajectory: &Trajectory, key: &str) -> Result<Vec<Item>, Error> {
    match trajectory.privileged(key) {
        Some(value) => checklist::read(&value.shown(), &format!("the privileged `{key}`")),
        None => Err(Error::invalid(format!(
            "there is no checklist: write one in the option `checklist`, or set `checklist-key` to a privileged fact of \
             the environment, which has no `{key}`"
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
            // Without a message the model is not called.
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
