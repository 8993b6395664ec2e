//! Questions about generated databases. The answer is a query; it is right if it gives the expected result.
//!
//! Every task has a separate schema, rows and question. The visible database is the set-up data of the tool `sql`; the
//! judge also runs the answer on databases with other rows, so that constants fail. The first query that runs ends the
//! episode. A query that fails is answered by SQLite's message, and the agent may correct it a limited number of times.

mod domain;
pub mod judge;
mod question;
mod rows;
mod schema;
mod task;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Guidance, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Call, Content, Error, NamedValue, PluginOptions, Task as Place, named, plugin, text};

use question::Kind;
use task::Task;

const SPLITS: [&str; 2] = ["train", "test"];
/// Option value for tasks of any kind.
const MIXED: &str = "mixed";
/// Function of the tool `sql` that the oracle calls.
const QUERY: &str = "query";
/// Choices of the option `difficulty`.
const DIFFICULTIES: [&str; 7] = [MIXED, "filter", "aggregate", "join", "group-having", "nested", "window"];
const MIN_ROWS: u64 = 12;
const MAX_ROWS: u64 = 400;
const MAX_ATTEMPTS: u64 = 20;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// SQL features that the query requires
    #[option(default = MIXED, choices = DIFFICULTIES)]
    difficulty: String,
    /// Number of rows of the largest table
    #[option(default = 40, range = MIN_ROWS..=MAX_ROWS)]
    rows: u64,
    /// Maximum number of answers until one runs
    #[option(default = 3, range = 1..=MAX_ATTEMPTS)]
    attempts: u64,
    /// Include the table definitions in the question
    #[option(default = true)]
    show_schema: bool,
}

/// Episode: one task and whether it was answered.
pub struct TextToSql {
    settings: Settings,
    task: Task,
    tried: u64,
    over: bool,
}

/// Determinants of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Settings {
    test: bool,
    index: u64,
    kind: Option<Kind>,
    rows: u64,
    attempts: u64,
}

impl TextToSql {
    fn new(settings: Settings) -> Result<Self, Error> {
        let Settings { test, index, kind, rows, .. } = settings;
        let task = Task::at(test, index, kind, rows).map_err(Error::Other)?;
        Ok(Self { settings, task, tried: 0, over: false })
    }

    fn ended(&mut self, right: bool) -> StepResult {
        self.over = true;
        StepResult::new().reward(f64::from(u8::from(right))).extra("success", right).end()
    }

    /// Call of the oracle before its answer.
    fn call(&self) -> Call {
        Call::advised(QUERY, serde_json::json!({ "sql": self.task.question.sql }).to_string())
    }
}

impl Environment for TextToSql {
    type Options = Options;

    fn info() -> Info {
        Info::new("Questions about a database, answered by a query", ["analyst"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(SPLITS.map(Split::endless).to_vec())
    }

    fn reset(place: &Place, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let split =
            SPLITS.iter().position(|split| *split == place.split).ok_or_else(|| Error::no_split(place, &SPLITS))?;
        let episode = Self::new(Settings {
            test: split == 1,
            index: place.index,
            kind: Kind::ALL.iter().find(|(name, _)| *name == options.difficulty).map(|(_, kind)| *kind),
            rows: options.rows,
            attempts: options.attempts,
        })?;
        let tables = if options.show_schema { format!("{}\n", episode.task.create) } else { String::new() };
        let how = "Answer with one query in SQLite's SQL and nothing else. Its columns come in the order in which the \
                   question names them.";
        let words = format!("{tables}{}\n\n{how}", episode.task.question.text);
        let started = ResetResult::observe(words).tool_setup("sql", episode.task.script(0).into_bytes());
        Ok((episode, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.tried += 1;
        let left = self.settings.attempts.saturating_sub(self.tried);
        Ok(match self.task.judge(query_in(&action.text())) {
            Ok(right) => self.ended(right),
            Err(_) if left == 0 => self.ended(false),
            Err(why) => {
                let more = if left == 1 { "1 more attempt".to_owned() } else { format!("{left} more attempts") };
                StepResult::observe(format!("This query does not run: {why}. You have {more}."))
            }
        })
    }
}

/// Query in a message: its last fenced block, or the whole message.
fn query_in(message: &str) -> &str {
    let Some((before, _)) = message.rsplit_once("```") else { return message.trim() };
    let Some((_, block)) = before.rsplit_once("```") else { return message.trim() };
    let (language, rest) = block.split_once('\n').unwrap_or(("", block));
    if language.chars().all(char::is_alphanumeric) { rest.trim() } else { block.trim() }
}

impl Snapshot for TextToSql {
    /// The task determines the question and its rows, so the snapshot contains only the task.
    fn snapshot(&self) -> Vec<u8> {
        let Settings { test, index, kind, rows, attempts } = self.settings;
        let writer = Writer::new().flag(test).integer(index).text(kind.map_or(MIXED, Kind::name));
        writer.integer(rows).integer(attempts).integer(self.tried).flag(self.over).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (test, index, name) = (reader.flag()?, reader.integer()?, reader.text()?.to_owned());
        let (rows, attempts, tried, over) = (reader.integer()?, reader.integer()?, reader.integer()?, reader.flag()?);
        reader.end()?;
        let kind = Kind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let in_range = (MIN_ROWS..=MAX_ROWS).contains(&rows) && (tried.max(1)..=MAX_ATTEMPTS).contains(&attempts);
        if kind.is_none() && name != MIXED || !in_range {
            return Err(Error::bad_snapshot("the snapshot's difficulty, rows or attempts are out of range"));
        }
        Ok(Self { tried, over, ..Self::new(Settings { test, index, kind, rows, attempts })? })
    }
}

impl StateKey for TextToSql {
    fn state_key(&self) -> Vec<u8> {
        let writer = Writer::new().text(&self.task.script(0)).text(&self.task.question.text);
        writer.integer(self.settings.attempts - self.tried).flag(self.over).finish()
    }
}

impl Privileged for TextToSql {
    fn privileged(&self) -> Vec<NamedValue> {
        let Call { name, arguments, .. } = self.call();
        let arguments = serde_json::from_str::<serde_json::Value>(&arguments).unwrap_or_default();
        let calls = serde_json::json!([{ "name": name, "arguments": arguments }]).to_string();
        let question = &self.task.question;
        vec![named("answer", question.sql.as_str()), named("kind", question.kind.name()), named("calls", calls)]
    }
}

impl Guidance for TextToSql {
    fn guidance(&self) -> Content {
        text(match self.task.question.kind {
            Kind::Filter => "One table is enough: WHERE, and where an order is asked for ORDER BY and LIMIT.",
            Kind::Aggregate => {
                "One row is asked for: COUNT, SUM, AVG, MIN or MAX, with DISTINCT where things count once."
            }
            Kind::Join => "Join the tables by their keys, and mind whether equal rows are asked for once.",
            Kind::GroupHaving => "GROUP BY makes the groups and HAVING chooses among them.",
            Kind::Nested => "Put a query within the query: IN, NOT IN, a comparison with an average, or EXCEPT.",
            Kind::Window => "Use a window: RANK, ROW_NUMBER, LAG or a sum with OVER (PARTITION BY … ORDER BY …).",
        })
    }
}

impl Oracle for TextToSql {
    /// Tries the query with the tool, if available, then answers with it.
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        let can_try = tools.iter().any(|tool| tool == QUERY) && results.is_empty();
        Ok(if can_try { Advice::Calls(vec![self.call()]) } else { Advice::Message(self.task.question.sql.clone()) })
    }
}

plugin! { environment: TextToSql { snapshot, state_key, privileged, guidance, oracle } }

#[cfg(test)]
mod tests;
