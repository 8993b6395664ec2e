//! Weighted checklist: a rule or the run's `model` decides each item, for the whole episode, for each turn, or for each
//! unit of thought.
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
//! name = "searches"
//! in = "turn"                 # each message with its calls; "thought": each unit of thought in it
//! once = true                 # counts once, in its best turn, instead of in every turn
//! must-call = "search"
//!
//! [[items]]
//! name = "grounded"
//! in = "thought"
//! needs = ["searches"]        # counts from the turn on in which the needed items are met
//! grade = "Does the thought follow from the search results?"
//! ```
//!
//! `in` is `last` (the final message, the default), `all` (all messages), `turn` or `thought`. Rules: `contains`,
//! `not-contains` (both ignore case), `max-words`, `must-call`, `must-not-call`, `json-valid`, `number-within = [low,
//! high]` (the last number), `fact` (a fact of the environment's last step), `answer` (the final message gives this
//! privileged fact).
//!
//! Items about the whole episode make the outcome: the weighted share of met items, `Σ weight · met / Σ positive weights`
//! (RuscaRL), clamped to 0 to 1, or to −1 to 1 with the option `lowest`. Items about turns and thoughts make the process:
//! the same share, averaged over turns. With both, the total is `α · process + (1 − α) · outcome`, where α falls over
//! training (Atom-Searcher), and each turn has its part of the process as its reward. `weigh.rs` has the formulas.
//!
//! The manifest declares `model` as optional: a checklist without judged items requires no grant; otherwise a missing
//! grant is an error that names the item. `judge` describes the protection of the judge against the agent's text and its
//! limits. A reply without a verdict is asked for again, and then an error that names the item.

mod assess;
mod attempt;
mod checklist;
mod judge;
mod needs;
mod quote;
mod rule;
mod score;
mod thought;
mod weigh;

use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory};
use gymkhana_sdk::{Error, OptionValue, PluginOptions, model, plugin};

use assess::assess;
use attempt::Attempt;
use checklist::Checklist;
use judge::Judge;
use score::{Assessed, Scoring};
use weigh::Normalise;

/// Lowest total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Lowest {
    Zero,
    MinusOne,
}

/// Requests about turns and thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum JudgeTurns {
    AtOnce,
    OneByOne,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Items as TOML or JSON; if empty, they come from the environment's privileged view
    #[option(default = "")]
    checklist: String,
    /// Name of the privileged fact with the checklist, if the option `checklist` is empty
    #[option(default = "rubric")]
    checklist_key: String,
    /// Lowest total, without normalisation
    #[option(default = Lowest::Zero)]
    lowest: Lowest,
    /// Maximum length of the quoted texts in a prompt, in bytes; longer texts are cut in the middle
    #[option(default = 20_000, range = 100..=1_000_000)]
    quote_bytes: usize,
    /// Requests about turns and thoughts: one for all turns, or one for each turn
    #[option(default = JudgeTurns::AtOnce)]
    judge_turns: JudgeTurns,
    /// Judgements of each verdict, of which the mean counts
    #[option(default = 1, range = 1..=9)]
    judges: u32,
    /// Sampling temperature of the judge
    #[option(default = 0.0, range = 0.0..=2.0)]
    temperature: f64,
    /// Further requests after a reply without a verdict
    #[option(default = 1, range = 0..=5)]
    retries: u32,
    /// Units of thought in a turn; the last one holds all that follows
    #[option(default = 16, range = 1..=256)]
    most_thoughts: usize,
    /// Weight of the process in the total, beside items about the whole episode
    #[option(default = 0.5, range = 0.0..=1.0)]
    process_weight: f64,
    /// Training steps over which the weight of the process falls to 0, linearly; 0: constant
    #[option(default = 0, range = 0..=1_000_000_000)]
    decay_steps: u64,
    /// Weight of a turn relative to the turn before it
    #[option(default = 1.0, range = 0.01..=1.0)]
    turn_decay: f64,
    /// Normalisation of the process: by the outcome (ReNorm), or of each item within the group
    #[option(default = Normalise::None)]
    normalise: Normalise,
}

/// Weighted share of met checklist items.
pub struct Rubric;

impl Reward for Rubric {
    type Options = Options;

    fn info() -> Info {
        Info::new("Weighted checklist of the outcome, the turns and the thoughts, by rules or a model")
            .component("met", "weight of the met outcome items relative to the positive weights, before clamping")
            .component("items", "number of items")
            .component("items-met", "number of met items, including fractions of graded ones and of turns")
            .component("essential-missed", "number of essential items that were not met")
            .component("asked", "number of replies of the model")
            .component("process", "process before normalisation and weight: sum of the items' parts in all turns")
            .component("process-weight", "weight of the process in the total, from 0 to 1")
            .component("blocked", "number of items that did not count because an item that they need was not met")
            .component("prompt-tokens", "tokens of the prompts to the model")
            .component("reply-tokens", "tokens of the model's replies")
            .component("disagreement", "mean standard deviation between the judgements of a verdict, from 0 to 0.5")
            .component("disputed", "share of verdicts with judgements below 0.5 and others of at least 0.5")
    }

    fn score(group: &[Trajectory], options: &Options, training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        score_by(group, options, training_step, &mut model::complete)
    }
}

/// [`Reward::score`] with a given source of the model's replies.
fn score_by(
    group: &[Trajectory],
    options: &Options,
    training_step: u64,
    ask: judge::Ask<'_>,
) -> Result<Vec<Vec<Score>>, Error> {
    let lists = checklists(group, options)?;
    let &Options { quote_bytes, judges, retries, temperature, .. } = options;
    let settings = judge::Settings { quote_bytes, judges, retries, temperature: temperature as f32 };
    let mut judge = Judge::new(ask, settings);
    let one_by_one = options.judge_turns == JudgeTurns::OneByOne;
    let mut assessed = Vec::new();
    for (trajectory, attempted) in group.iter().enumerate() {
        for seat in attempted.seats() {
            let attempt = Attempt::new(attempted, seat, options.most_thoughts);
            let assessment = assess(&attempt, &lists[trajectory], &mut judge, one_by_one)?;
            let items = &lists[trajectory].items;
            assessed.push(Assessed { seat, trajectory, items, assessment, account: judge.take_account() });
        }
    }
    let mut scores: Vec<Vec<Score>> = group.iter().map(|_| Vec::new()).collect();
    let scoring = Scoring::new(options, training_step, &assessed);
    for one in &assessed {
        scores[one.trajectory].push(scoring.score(one));
    }
    Ok(scores)
}

/// Checklist of each trajectory.
fn checklists(group: &[Trajectory], options: &Options) -> Result<Vec<Checklist>, Error> {
    let written = &options.checklist;
    // Parsed even if there is nothing to score, so that mistakes are found before a run starts.
    let shared =
        if written.trim().is_empty() { None } else { Some(checklist::read(written, "the option `checklist`")?) };
    let key = &options.checklist_key;
    let of = |trajectory| shared.clone().map_or_else(|| own_items(trajectory, key), Ok);
    let lists = group.iter().map(of).collect::<Result<Vec<_>, _>>()?;
    let lacks_outcome = |list: &Checklist| list.has(true) && !list.has(false);
    if options.normalise == Normalise::Outcome && shared.iter().chain(&lists).any(lacks_outcome) {
        return Err(Error::invalid(
            "`normalise` is `outcome`, but the checklist has no item about the whole episode: add one without `in`, such \
             as `fact = \"success\"`, or set `normalise` to `none`",
        ));
    }
    Ok(lists)
}

/// Checklist of the task.
fn own_items(trajectory: &Trajectory, key: &str) -> Result<Checklist, Error> {
    match trajectory.privileged(key) {
        Some(value) => checklist::read(&value.shown(), &format!("the privileged `{key}`")),
        None => Err(Error::invalid(format!(
            "there is no checklist: write one in the option `checklist`, or set `checklist-key` to a privileged fact of \
             the environment, which has no `{key}`"
        ))),
    }
}

plugin! { reward: Rubric }

#[cfg(test)]
mod tests;
