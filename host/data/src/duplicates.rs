//! Tasks that occur more than once, in one split or in several.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

use gymkhana_rows::Row;

/// Tasks that were seen, by their hashes.
#[derive(Default)]
pub(crate) struct Duplicates {
    hasher: RandomState,
    seen: HashMap<u64, First>,
    splits: Vec<String>,
    /// Places of the splits in their list.
    places: HashMap<String, u32>,
}

/// First occurrence of a task.
#[derive(Clone, Copy)]
struct First {
    number: u64,
    split: u32,
}

/// What is known about a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskOccurrence {
    /// It is new.
    New,
    /// Its split has it already.
    Again,
    /// The record with this number, in this other split, has it.
    Elsewhere(u64, String),
}

impl Duplicates {
    /// Notes the task of a record.
    pub fn note(&mut self, row: &Row, split: &str, number: u64) -> TaskOccurrence {
        let messages: Vec<(&str, &str)> =
            row.messages.iter().map(|message| (message.role.name(), message.content.as_str())).collect();
        let setup = serde_json::Value::Object(row.setup.clone()).to_string();
        let key = self.hasher.hash_one((messages, setup));
        let place = self.places.get(split).copied().unwrap_or_else(|| {
            let place = self.splits.len() as u32;
            self.splits.push(split.to_owned());
            self.places.insert(split.to_owned(), place);
            place
        });
        match self.seen.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(First { number, split: place });
                TaskOccurrence::New
            }
            Entry::Occupied(entry) if entry.get().split == place => TaskOccurrence::Again,
            Entry::Occupied(entry) => {
                let First { number, split } = *entry.get();
                TaskOccurrence::Elsewhere(number, self.splits[split as usize].clone())
            }
        }
    }
}
