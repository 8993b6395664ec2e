//! Oracle: remembers the facts that the questions need, in the tool `memory` if the run has it, else in its replies.
//!
//! If the questions come last, it remembers all facts, because a reader cannot know which ones will count.

use gymkhana_sdk::environment::Advice;
use gymkhana_sdk::{Call, hash};

use crate::LongReader;
use crate::facts::Fact;
use crate::settings::Ask;

/// Functions of the tool `memory`.
const INSERT: &str = "memory_insert";
const SEARCH: &str = "memory_search";
/// Reply without a memory.
const NOTHING: &str = "ok";

/// Next turn.
pub fn advise(reader: &LongReader, tools: &[String], results: &[String]) -> Advice {
    let has = |name: &str| tools.iter().any(|tool| tool == name);
    let has_memory = has(INSERT) && has(SEARCH);
    match (reader.memories > reader.settings.parts, has_memory) {
        (false, true) => store(reader, results),
        (false, false) => Advice::Message(memory(reader)),
        (true, true) => recall(reader, results),
        (true, false) => Advice::Message(reader.answers().join("\n")),
    }
}

/// Sentences of a part that the oracle remembers: its facts, or another sentence in place of them.
fn noted(reader: &LongReader, part: u64) -> Vec<String> {
    let is_needed = |fact: &&Fact| fact.part() == part && (fact.question.is_some() || reader.settings.ask == Ask::Last);
    let needed: Vec<String> =
        reader.document.facts.all.iter().filter(is_needed).map(|fact| fact.text.clone()).collect();
    let chance = hash(format!("oracle/{}/{part}", reader.index).as_bytes()) % 100;
    if needed.is_empty() || chance < reader.settings.oracle_care { needed } else { vec![reader.document.aside(part)] }
}

/// The part that was shown last, counted from 0.
fn shown(reader: &LongReader) -> Option<u64> {
    reader.memories.checked_sub(1).filter(|part| *part < reader.settings.parts)
}

/// Stores the sentences of the last part, then goes on.
fn store(reader: &LongReader, results: &[String]) -> Advice {
    let sentences = shown(reader).filter(|_| results.is_empty()).map(|part| noted(reader, part)).unwrap_or_default();
    if sentences.is_empty() {
        return Advice::Message(cut(NOTHING, reader.settings.memory_chars));
    }
    Advice::Calls(sentences.iter().map(|text| call(INSERT, "text", text)).collect())
}

/// Sentences so far, as many of the newest as the memory holds.
fn memory(reader: &LongReader) -> String {
    let read = shown(reader).map_or(0, |part| part + 1);
    let sentences: Vec<String> = (0..read).flat_map(|part| noted(reader, part)).collect();
    let most = reader.settings.memory_chars;
    let fitting = (0..sentences.len()).map(|first| sentences[first..].join(" "));
    let mut fitting = fitting.skip_while(|text| text.chars().count() as u64 > most);
    fitting.next().unwrap_or_else(|| cut(NOTHING, most))
}

/// Searches for the persons of each question, one step after the other, and answers when the last facts are found, or
/// nothing is.
fn recall(reader: &LongReader, results: &[String]) -> Advice {
    let questions = &reader.document.facts.questions;
    let hops = reader.settings.hops as usize;
    let found = results.first().zip(questions.first()).map(|(result, question)| {
        let steps = question.steps.iter().take(hops);
        steps.enumerate().filter(|(_, step)| result.contains(step.as_str())).map(|(place, _)| place + 1).max()
    });
    match found {
        None => search(reader, 0),
        Some(Some(next)) if next < hops => search(reader, next),
        Some(_) => Advice::Message(reader.answers().join("\n")),
    }
}

fn search(reader: &LongReader, step: usize) -> Advice {
    let people = reader.document.facts.questions.iter().filter_map(|question| question.people.get(step));
    Advice::Calls(people.map(|person| call(SEARCH, "query", person)).collect())
}

/// Call with one argument.
fn call(name: &str, argument: &str, text: &str) -> Call {
    Call::advised(name, serde_json::json!({ (argument): text }).to_string())
}

fn cut(text: &str, most: u64) -> String {
    text.chars().take(most as usize).collect()
}
