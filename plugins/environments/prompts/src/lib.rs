//! Questions from a JSON Lines asset, each answered by one message.
//!
//! The first message ends the episode. A reward judges it by the privileged fields, such as `answer`.

mod message;
mod question;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Privileged, Snapshot, Split, Started, StateKey, Stepped,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, NamedValue, OptionInfo, Options, Task, assets, plugin};

use question::Question;

/// Questions by split.
type Splits = BTreeMap<String, Vec<Question>>;

thread_local! {
    /// Latest questions with the asset and the percentage that they came from. Assets do not change during a run.
    static LAST: RefCell<Option<(String, u64, Rc<Splits>)>> = const { RefCell::new(None) };
}

/// Episode: one question and whether it was answered.
#[derive(Debug, PartialEq)]
pub struct Prompts {
    question: Question,
    answered: bool,
}

impl Environment for Prompts {
    fn info() -> Info {
        let test_percent = "Percentage of the lines without `split` that form the split `test`";
        Info::new("Questions from a file, one answer each", ["solver"])
            .option(OptionInfo::new("file", "Asset with one JSON object per line", "prompts.jsonl"))
            .option(OptionInfo::new("test-percent", test_percent, 10).within(0.0, 100.0))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        let splits = load(options)?;
        Ok(splits.iter().map(|(name, questions)| Split::of(name, questions.len() as u64)).collect())
    }

    fn start(task: &Task, options: &Options, _seed: u64) -> Result<(Self, Started), Error> {
        let splits = load(options)?;
        let Some(questions) = splits.get(&task.split) else {
            let known: Vec<&str> = splits.keys().map(String::as_str).collect();
            return Err(Error::no_split(task, &known));
        };
        let question = usize::try_from(task.index).ok().and_then(|index| questions.get(index));
        let question = question.ok_or_else(|| {
            Error::not_found(format!("split `{}` has {} tasks, not task {}", task.split, questions.len(), task.index))
        })?;
        let started = Started::observe(question.observation());
        Ok((Self { question: question.clone(), answered: false }, started))
    }

    fn step(&mut self, _action: Action) -> Result<Stepped, Error> {
        self.answered = true;
        Ok(Stepped::new().end())
    }
}

impl Snapshot for Prompts {
    fn snapshot(&self) -> Vec<u8> {
        Writer::new().text(&self.question.line()).flag(self.answered).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (line, answered) = (reader.text()?, reader.flag()?);
        reader.end()?;
        let question = Question::parse(line).map_err(Error::bad_snapshot)?;
        Ok(Self { question, answered })
    }
}

impl StateKey for Prompts {
    fn state_key(&self) -> Vec<u8> {
        self.snapshot()
    }
}

impl Privileged for Prompts {
    fn privileged(&self) -> Vec<NamedValue> {
        self.question.facts()
    }
}

impl Oracle for Prompts {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let answer = self.question.answer();
        answer.map(Advice::Message).ok_or_else(|| Error::not_found("the question has no `answer` to demonstrate"))
    }
}

/// Questions of the asset that the options name.
fn load(options: &Options) -> Result<Rc<Splits>, Error> {
    let file = options.text("file");
    let test_percent = u64::try_from(options.integer("test-percent")).unwrap_or(0);
    let last = LAST.with_borrow(|last| last.clone());
    if let Some((_, _, splits)) = last.filter(|(name, percent, _)| name == file && *percent == test_percent) {
        return Ok(splits);
    }
    let bytes = assets::read_whole(file).map_err(|error| match error {
        Error::NotFound(_) => Error::invalid(format!(
            "the run mounts no asset `{file}`; add `[plugins.prompts]` with `assets = {{ \"{file}\" = \"FILE\" }}`"
        )),
        other => other,
    })?;
    let splits = Rc::new(question::parse_all(file, &bytes, test_percent).map_err(Error::invalid)?);
    LAST.set(Some((file.to_owned(), test_percent, splits.clone())));
    Ok(splits)
}

plugin! { environment: Prompts { snapshot, state_key, privileged, oracle } }
