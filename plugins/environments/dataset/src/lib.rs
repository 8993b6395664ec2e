//! Tasks from the rows of an asset: a question or a conversation, with functions and set-up data for tools where the row
//! has them.
//!
//! The last message ends the episode. A reward judges it by the privileged fields, such as `answer`, which are the row's
//! other columns. The asset is a file of `host data import`, or a small file with JSON lines.

mod conversation;
mod data;

use std::cell::RefCell;
use std::rc::Rc;

use gymkhana_rows::{Row, shown};
use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, Function, NamedValue, PluginOptions, Task, Value, named, plugin};
use serde_json::Value as Json;

use conversation::{Answered, Conversation};
use data::Data;

/// Answer to a call of a function for which the row has no result.
const NOTED: &str = "noted";

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Asset with the rows
    #[option(default = "data.rows")]
    file: String,
    /// Messages of the user that the agent answers: the last one, or each in turn
    #[option(default = Answered::Last)]
    conversation: Answered,
    /// Percentage of the JSON lines without `split` that form the split `test`
    #[option(default = 10, range = 0..=100)]
    test_percent: u64,
}

/// The latest data with its options.
struct Opened {
    file: String,
    test_percent: u64,
    data: Rc<Data>,
}

thread_local! {
    /// Assets do not change during a run.
    static LAST: RefCell<Option<Opened>> = const { RefCell::new(None) };
}

/// Episode: one row and the number of messages that were answered.
pub struct Dataset {
    row: Row,
    each: bool,
    conversation: Conversation,
    answered: u64,
}

impl Dataset {
    fn new(row: Row, each: bool, answered: u64) -> Self {
        let conversation = Conversation::of(&row, each);
        Self { row, each, conversation, answered }
    }
}

impl Environment for Dataset {
    type Options = Options;

    fn info() -> Info {
        Info::new("Tasks from the rows of a file", ["solver"])
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        Ok(load(options)?.splits())
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let row = load(options)?.row(task)?;
        let episode = Self::new(row, options.conversation == Answered::Each, 0);
        let mut started = ResetResult::observe(&episode.conversation.observations[0]);
        let functions: Vec<Function> = episode.row.functions.iter().map(function).collect();
        if !functions.is_empty() {
            started = started.offer(0, functions);
        }
        for (tool, setup) in &episode.row.setup {
            started = started.tool_setup(tool, shown(setup).into_bytes());
        }
        Ok((episode, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        if let Some(call) = action.call() {
            let result = self.row.results.get(&call.name);
            return Ok(StepResult::observe(result.map_or_else(|| NOTED.to_owned(), shown)));
        }
        self.answered += 1;
        let next = usize::try_from(self.answered).ok().and_then(|next| self.conversation.observations.get(next));
        Ok(next.map_or_else(|| StepResult::new().end(), StepResult::observe))
    }
}

impl Snapshot for Dataset {
    fn snapshot(&self) -> Vec<u8> {
        let row = Json::Object(self.row.columns()).to_string();
        Writer::new().text(&row).flag(self.each).integer(self.answered).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (row, each, answered) = (reader.text()?, reader.flag()?, reader.integer()?);
        reader.end()?;
        let row = Row::parse(row.as_bytes()).map_err(Error::bad_snapshot)?;
        let episode = Self::new(row, each, answered);
        if answered > episode.conversation.observations.len() as u64 {
            return Err(Error::bad_snapshot(format!("the conversation has no message {answered}")));
        }
        Ok(episode)
    }
}

impl StateKey for Dataset {
    fn state_key(&self) -> Vec<u8> {
        self.snapshot()
    }
}

impl Privileged for Dataset {
    fn privileged(&self) -> Vec<NamedValue> {
        let mut facts: Vec<NamedValue> = self.row.facts.iter().map(|(name, fact)| named(name, value(fact))).collect();
        facts.sort_by(|one, other| one.name.cmp(&other.name));
        facts
    }
}

impl Oracle for Dataset {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let reply = usize::try_from(self.answered).ok().and_then(|next| self.conversation.replies.get(next));
        let answer = reply.cloned().or_else(|| self.row.answer());
        answer.map(Advice::Message).ok_or_else(|| Error::not_found("the row has no `answer` to demonstrate"))
    }
}

/// Data of the asset that the options name.
fn load(options: &Options) -> Result<Rc<Data>, Error> {
    let Options { file, test_percent, .. } = options;
    let is_same = |opened: &Opened| opened.file == *file && opened.test_percent == *test_percent;
    let known =
        LAST.with_borrow(|last| last.as_ref().filter(|opened| is_same(opened)).map(|opened| opened.data.clone()));
    if let Some(data) = known {
        return Ok(data);
    }
    let data = Rc::new(Data::open(file, *test_percent)?);
    LAST.set(Some(Opened { file: file.clone(), test_percent: *test_percent, data: data.clone() }));
    Ok(data)
}

fn function(of: &gymkhana_rows::Function) -> Function {
    let (name, description) = (of.name.clone(), of.description.clone());
    Function { name, description, parameters: of.parameters.to_string(), cost: 0.0 }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Bool(flag) => Value::Flag(*flag),
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => number.as_i64().map_or_else(
            || number.as_f64().map_or_else(|| Value::Other(number.to_string()), Value::Number),
            Value::Integer,
        ),
        other => Value::Other(other.to_string()),
    }
}

plugin! { environment: Dataset { snapshot, state_key, privileged, oracle } }
