//! Questions about a long generated document that is shown part by part, as in MemAgent.
//!
//! The agent answers each part with its memory, a text of bounded length that replaces the previous one. After the last
//! part it answers the questions. Under the context strategy `state` it sees the opening, its memory and one part at a
//! time, whatever the length of the document. A tool such as `memory` keeps texts besides.

mod document;
mod facts;
mod grade;
mod oracle;
mod settings;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, SnapshotState as _, Writer};
use gymkhana_sdk::{Error, NamedValue, Task, Value, named, plugin};

use document::Document;
use settings::{Ask, Settings};

const SPLITS: [&str; 2] = ["train", "test"];
/// Memories in a row that are too long, after which the episode is truncated.
const REFUSALS: u64 = 3;

/// Episode: a document and what the agent has read and remembers of it.
#[derive(Debug, PartialEq)]
pub struct LongReader {
    test: bool,
    index: u64,
    settings: Settings,
    document: Document,
    /// Number of accepted memories. Part N was shown after memory N, counted from 1, and the questions after the last.
    memories: u64,
    /// Current memory.
    memory: String,
    /// Number of memories in a row that were too long.
    refused: u64,
    over: bool,
}

impl LongReader {
    fn new(test: bool, index: u64, settings: Settings) -> Self {
        let document = Document::at(test, index, &settings);
        Self { test, index, settings, document, memories: 0, memory: String::new(), refused: 0, over: false }
    }

    /// Text of the questions, with the form of the answer.
    fn questions(&self) -> String {
        let changes = if self.settings.changed > 0 { " If a number changes, its last value counts." } else { "" };
        match &self.document.facts.questions[..] {
            [question] => format!("Question: {}{changes} Answer with the number alone.", question.text),
            several => {
                let numbered = several.iter().enumerate();
                let lines: Vec<String> =
                    numbered.map(|(place, question)| format!("{}. {}", place + 1, question.text)).collect();
                let form = "Answer with one number per line, in this order.";
                format!("Questions:\n{}\n{}", lines.join("\n"), format!("{changes} {form}").trim())
            }
        }
    }

    fn opening(&self) -> String {
        let Settings { parts, memory_chars, ask, .. } = self.settings;
        let shown = if parts == 1 { "1 part".to_owned() } else { format!("{parts} parts, one at a time") };
        let rule = format!(
            "You will read a document of {shown}. Reply to each part with your memory: all that you need later, in at \
             most {memory_chars} characters."
        );
        let asked =
            if ask == Ask::Last { "Questions about it come after the last part.".to_owned() } else { self.questions() };
        format!("{rule}\n\n{asked}\n\nReply to begin; your memory is still empty.")
    }

    fn answers(&self) -> Vec<&str> {
        self.document.facts.questions.iter().map(|question| question.answer.as_str()).collect()
    }

    /// Accepts a memory and shows what comes next, or refuses it.
    fn remember(&mut self, memory: &str) -> StepResult {
        let (length, most) = (memory.chars().count() as u64, self.settings.memory_chars);
        if length > most {
            self.refused += 1;
            if self.refused >= REFUSALS {
                self.over = true;
                let stepped = StepResult::observe("The memory was too long again. The document is closed.");
                return self.result(stepped, &[]).truncate();
            }
            let left = REFUSALS - self.refused;
            return StepResult::observe(format!(
                "This memory has {length} characters, at most {most} are allowed. Reply with a shorter one; you have \
                 {left} more {}.",
                if left == 1 { "attempt" } else { "attempts" }
            ));
        }
        memory.clone_into(&mut self.memory);
        self.refused = 0;
        self.memories += 1;
        let parts = self.settings.parts;
        StepResult::observe(match self.memories {
            number if number <= parts => format!("Part {number} of {parts}:\n{}", self.document.part(number - 1)),
            _ if self.settings.ask == Ask::Last => format!("The document has ended. {}", self.questions()),
            _ => "The document has ended. Answer now.".to_owned(),
        })
    }

    /// Adds rewards and facts to the last step.
    fn result(&self, stepped: StepResult, right: &[bool]) -> StepResult {
        let count = right.iter().filter(|right| **right).count();
        let asked = self.document.facts.questions.len();
        let kept = self.answers().iter().filter(|answer| self.memory.contains(**answer)).count();
        let stepped = stepped.reward(count as f64 / asked as f64).extra("success", count == asked);
        let stepped = stepped.extra("right", count as i64).extra("questions", asked as i64);
        stepped.extra("kept", kept as i64).extra("memory-chars", self.memory.chars().count() as i64)
    }
}

impl Environment for LongReader {
    type Options = Settings;

    fn info() -> Info {
        let summary = "Questions about a long document, read part by part with a bounded memory";
        Info::new(summary, ["reader"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &Settings) -> Result<Vec<Split>, Error> {
        Ok(SPLITS.map(Split::endless).to_vec())
    }

    fn reset(task: &Task, settings: &Settings, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let split =
            SPLITS.iter().position(|split| *split == task.split).ok_or_else(|| Error::no_split(task, &SPLITS))?;
        let reader = Self::new(split == 1, task.index, *settings);
        let started = ResetResult::observe(reader.opening());
        Ok((reader, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let message = action.text();
        if self.memories <= self.settings.parts {
            return Ok(self.remember(message.trim()));
        }
        self.over = true;
        let right = grade::grade(&message, &self.answers());
        Ok(self.result(StepResult::new(), &right).end())
    }
}

impl Snapshot for LongReader {
    /// The task determines the document, so the snapshot contains only the task and the agent's progress.
    fn snapshot(&self) -> Vec<u8> {
        let task = self.settings.write(Writer::new().flag(self.test).integer(self.index));
        task.integer(self.memories).text(&self.memory).integer(self.refused).flag(self.over).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (test, index, settings) = (reader.flag()?, reader.integer()?, Settings::read(&mut reader)?);
        let (memories, memory, refused) = (reader.integer()?, reader.text()?.to_owned(), reader.integer()?);
        let over = reader.flag()?;
        reader.end()?;
        if memories > settings.parts + 1 || refused > REFUSALS {
            return Err(Error::bad_snapshot("the snapshot's progress is beyond the document"));
        }
        if memory.chars().count() as u64 > settings.memory_chars {
            return Err(Error::bad_snapshot("the snapshot's memory is too long"));
        }
        Ok(Self { memories, memory, refused, over, ..Self::new(test, index, settings) })
    }
}

impl StateKey for LongReader {
    fn state_key(&self) -> Vec<u8> {
        self.snapshot()
    }
}

impl Privileged for LongReader {
    fn privileged(&self) -> Vec<NamedValue> {
        let facts: Vec<&String> = self.document.facts.questions.iter().flat_map(|question| &question.steps).collect();
        vec![
            named("answer", self.answers().join("\n")),
            named("questions", self.questions()),
            named("facts", Value::Other(serde_json::json!(facts).to_string())),
        ]
    }
}

impl Oracle for LongReader {
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        Ok(oracle::advise(self, tools, results))
    }
}

plugin! { environment: LongReader { snapshot, state_key, privileged, oracle } }

#[cfg(test)]
mod tests;
