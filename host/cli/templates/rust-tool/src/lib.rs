//! Notebook: the agent writes notes by name and reads them in later calls of the same episode.
//!
//! Replace these functions by your own. The host relies on two properties: `Notes` contains the complete state of a
//! session, and an error of the agent is a failed answer that says what to write instead.

use std::collections::BTreeMap;

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::tool::{Answer, FinalView, Info, Snapshot, Tool};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, PluginOptions, named, plugin};

/// Options that a run file may set. Their descriptions are the doc comments.
#[derive(PluginOptions)]
pub struct Options {
    /// Maximum number of notes
    #[option(default = 20, range = 1..=1000)]
    most: u64,
}

/// Session: the notes of one episode and their maximum number.
pub struct Notes {
    most: u64,
    /// Sorted by name, so that listings and snapshots have a stable order.
    notes: BTreeMap<String, String>,
}

impl Notes {
    fn write(&mut self, name: String, text: String) -> Result<String, String> {
        if self.notes.len() as u64 >= self.most && !self.notes.contains_key(&name) {
            return Err(format!("there is room for {} notes; write over one of them", self.most));
        }
        let done = format!("wrote `{name}`");
        self.notes.insert(name, text);
        Ok(done)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let known = || self.notes.keys().cloned().collect::<Vec<_>>().join(", ");
        let note = self.notes.get(name).map(|text| format!("{name}: {text}"));
        note.ok_or_else(|| format!("there is no note `{name}`; the notes are: {}", known()))
    }

    fn answer(&mut self, call: &Call) -> Result<String, String> {
        match call.name.as_str() {
            "write_note" => self.write(call.text("name")?, call.text("text")?),
            _ => self.read(&call.text("name")?),
        }
    }
}

impl Tool for Notes {
    type Options = Options;

    fn info() -> Info {
        Info::new("Notes that an agent keeps during an episode")
    }

    fn functions(_options: &Options) -> Result<Vec<Function>, Error> {
        let name = || Parameters::new().text("name", "the note's name, such as plan");
        Ok(vec![
            Function::new("write_note", "Writes a note down, over one of the same name.", name().text("text", "the note")),
            Function::new("read_note", "Reads a note.", name()),
        ])
    }

    fn open(_setup: Option<Vec<u8>>, options: &Options, _seed: u64) -> Result<Self, Error> {
        Ok(Self { most: options.most, notes: BTreeMap::new() })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        if !["write_note", "read_note"].contains(&call.name.as_str()) {
            return Ok(Answer::no_function(call));
        }
        Ok(self.answer(call).into())
    }
}

/// Enables forks of episodes: the snapshot contains everything that later calls depend on.
impl Snapshot for Notes {
    fn snapshot(&self) -> Vec<u8> {
        let begun = Writer::new().integer(self.most).integer(self.notes.len() as u64);
        self.notes.iter().fold(begun, |writer, (name, text)| writer.text(name).text(text)).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (most, count) = (reader.integer()?, reader.integer()?);
        let mut notes = BTreeMap::new();
        for _ in 0..count {
            notes.insert(reader.text()?.to_owned(), reader.text()?.to_owned());
        }
        reader.end()?;
        Ok(Self { most, notes })
    }
}

/// Facts for rewards at the end of the episode.
impl FinalView for Notes {
    fn final_view(&self) -> Vec<NamedValue> {
        vec![named("notes", self.notes.len() as i64)]
    }
}

plugin! { tool: Notes { snapshot, final_view } }

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::text_of;
    use gymkhana_sdk::tool::Session;

    fn ask(session: &mut Session<Notes>, function: &str, arguments: &str) -> (String, bool) {
        let answer = session.call(&Call::advised(function, arguments)).expect("mistakes are answers");
        (text_of(&answer.content), answer.failed)
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let mut session = Session::<Notes>::open(None, vec![], 0).expect("it needs no setup");
        let wrote = ask(&mut session, "write_note", r#"{"name": "plan", "text": "ask first"}"#);
        assert_eq!(wrote, ("wrote `plan`".to_owned(), false));
        let read = ask(&mut session, "read_note", r#"{"name": "plan"}"#);
        assert_eq!(read, ("plan: ask first".to_owned(), false));
    }

    #[test]
    fn mistakes_say_what_to_write_instead() {
        let mut session = Session::<Notes>::open(None, vec![], 0).expect("it needs no setup");
        let (words, failed) = ask(&mut session, "read_note", r#"{"name": "plan"}"#);
        assert!(failed && words.contains("no note `plan`"), "{words}");
        assert!(ask(&mut session, "write_note", r#"{"name": "plan"}"#).1, "a text is missing");
    }
}
