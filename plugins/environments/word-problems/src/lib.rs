//! Generated arithmetic stories for one solver, without limit.
//!
//! The solver reads a story and answers in a message; the first message without a call ends the episode. A reward
//! judges the answer from the privileged `answer`. The splits share no sum.

mod story;
mod sum;
mod templates;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Call, Error, NamedValue, PluginOptions, Task, hash, named, plugin};

use story::Story;

/// Function that the oracle calls if the run's tools offer it.
const CALCULATE: &str = "calculate";

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Difficulty: 1 is one operation on two-digit numbers, 2 a product of two-digit numbers and one more operation, 3
    /// three operations, 4 four operations and an irrelevant number
    #[option(default = 2, range = 1..=4)]
    difficulty: u8,
    /// Percentage of stories for which the oracle calls an available calculator instead of answering directly
    #[option(default = 100, range = 0..=100)]
    oracle_calls: u8,
}

/// Episode: one story and whether it was answered.
#[derive(Debug, PartialEq)]
pub struct WordProblems {
    split: story::Split,
    index: u64,
    difficulty: u8,
    oracle_calls: u8,
    story: Story,
    answered: bool,
}

impl WordProblems {
    fn new(split: story::Split, index: u64, difficulty: u8, oracle_calls: u8) -> Self {
        Self { split, index, difficulty, oracle_calls, story: Story::at(split, index, difficulty), answered: false }
    }

    /// Whether the oracle uses a calculator for this story; deterministic per story.
    fn oracle_calls_now(&self) -> bool {
        hash(format!("oracle/{}", self.index).as_bytes()) % 100 < u64::from(self.oracle_calls)
    }
}

impl Environment for WordProblems {
    type Options = Options;

    fn info() -> Info {
        Info::new("Arithmetic stories; answer with the number alone", ["solver"])
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(story::Split::NAMES.map(Split::endless).to_vec())
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let known = story::Split::named(&task.split);
        let split = known.ok_or_else(|| Error::no_split(task, &story::Split::NAMES))?;
        let &Options { difficulty, oracle_calls } = options;
        let problem = Self::new(split, task.index, difficulty, oracle_calls);
        let started = ResetResult::observe(&problem.story.text);
        Ok((problem, started))
    }

    fn step(&mut self, _action: Action) -> Result<StepResult, Error> {
        self.answered = true;
        Ok(StepResult::new().end())
    }
}

impl Snapshot for WordProblems {
    /// The task determines the story, so the snapshot contains only the task.
    fn snapshot(&self) -> Vec<u8> {
        let test = self.split == story::Split::Test;
        let task = Writer::new().flag(test).integer(self.index).integer(self.difficulty.into());
        let task = task.integer(self.oracle_calls.into());
        task.flag(self.answered).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let split = if reader.flag()? { story::Split::Test } else { story::Split::Train };
        let (index, difficulty, oracle_calls) = (reader.integer()?, reader.integer()?, reader.integer()?);
        let answered = reader.flag()?;
        reader.end()?;
        let difficulty = u8::try_from(difficulty).ok().filter(|difficulty| (1..=4).contains(difficulty));
        let difficulty = difficulty.ok_or_else(|| Error::bad_snapshot("the snapshot's difficulty is not 1 to 4"))?;
        let oracle_calls = u8::try_from(oracle_calls).ok().filter(|calls| *calls <= 100);
        let oracle_calls =
            oracle_calls.ok_or_else(|| Error::bad_snapshot("the snapshot's oracle-calls are not 0 to 100"))?;
        Ok(Self { answered, ..Self::new(split, index, difficulty, oracle_calls) })
    }
}

impl StateKey for WordProblems {
    fn state_key(&self) -> Vec<u8> {
        Writer::new().text(&self.story.text).flag(self.answered).finish()
    }
}

impl Privileged for WordProblems {
    fn privileged(&self) -> Vec<NamedValue> {
        vec![named("answer", self.story.answer.to_string())]
    }
}

impl Oracle for WordProblems {
    /// Calls the calculator once, if it is available and `oracle-calls` selects this story, and answers with its
    /// result; otherwise answers directly.
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        if let Some(result) = results.last() {
            return Ok(Advice::Message(result.trim().to_owned()));
        }
        if tools.iter().any(|tool| tool == CALCULATE) && self.oracle_calls_now() {
            let arguments = format!("{{\"expression\": \"{}\"}}", self.story.expression);
            return Ok(Advice::Calls(vec![Call::advised(CALCULATE, arguments)]));
        }
        Ok(Advice::Message(self.story.answer.to_string()))
    }
}

plugin! { environment: WordProblems { snapshot, state_key, privileged, oracle } }

#[cfg(test)]
mod tests;
