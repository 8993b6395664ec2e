//! Core, episodic and semantic memory with their limits. Refusals are texts for the agent.

use gymkhana_sdk::Error;
use gymkhana_sdk::snapshot::{Reader, SnapshotState as _, Writer};

use crate::limits::Limits;

/// Identifier of the core memory, which has no entries.
const CORE: &str = "core";

/// Part of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// One text about the task as a whole.
    Core,
    /// Events, in their order.
    Episodic,
    /// Facts.
    Semantic,
}

impl Store {
    /// Store with this name.
    ///
    /// # Errors
    ///
    /// Message that lists the names.
    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            CORE => Ok(Self::Core),
            "episodic" => Ok(Self::Episodic),
            "semantic" => Ok(Self::Semantic),
            _ => Err(format!("there is no memory `{name}`; use core, episodic or semantic")),
        }
    }
}

/// Entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    number: u64,
    text: String,
}

/// Entries in the order of insertion. Numbers count from 1 and are never used again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct List {
    inserted: u64,
    entries: Vec<Entry>,
}

/// All memories of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stores {
    limits: Limits,
    core: String,
    episodic: List,
    semantic: List,
}

/// Place of an identifier: the core memory, or an entry of a list.
enum Place {
    Core,
    Entry(Store, usize),
}

impl Stores {
    /// Empty memories.
    pub fn new(limits: Limits) -> Self {
        Self { limits, core: String::new(), episodic: List::default(), semantic: List::default() }
    }

    /// Limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Adds an entry, or a line of the core memory. Returns the identifier.
    ///
    /// # Errors
    ///
    /// An empty text, and a limit that would be exceeded. The memory does not change then; likewise for the other
    /// changes.
    pub fn insert(&mut self, store: Store, text: &str) -> Result<String, String> {
        let text = text.trim();
        self.fits(store, text)?;
        let (letter, list) = match store {
            Store::Core => {
                let joined = if self.core.is_empty() { text.to_owned() } else { format!("{}\n{text}", self.core) };
                return self.set_core(joined).map(|()| CORE.to_owned());
            }
            Store::Episodic => ("e", &self.episodic),
            Store::Semantic => ("s", &self.semantic),
        };
        if list.entries.len() >= self.limits.entries {
            let most = self.limits.entries;
            return Err(format!("this memory is full, it has {most} of {most} entries: update or delete one"));
        }
        self.room(0, text)?;
        let list = self.list(store);
        list.inserted += 1;
        list.entries.push(Entry { number: list.inserted, text: text.to_owned() });
        Ok(format!("{letter}{}", list.inserted))
    }

    /// Replaces the text of an entry, or the core memory.
    ///
    /// # Errors
    ///
    /// Also an unknown identifier.
    pub fn update(&mut self, id: &str, text: &str) -> Result<(), String> {
        let text = text.trim();
        match self.place(id)? {
            Place::Core => {
                self.fits(Store::Core, text)?;
                self.set_core(text.to_owned())
            }
            Place::Entry(store, index) => {
                self.fits(store, text)?;
                let old = self.list(store).entries[index].text.chars().count();
                self.room(old, text)?;
                text.clone_into(&mut self.list(store).entries[index].text);
                Ok(())
            }
        }
    }

    /// Removes an entry, or empties the core memory.
    ///
    /// # Errors
    ///
    /// Unknown identifier.
    pub fn delete(&mut self, id: &str) -> Result<(), String> {
        match self.place(id)? {
            Place::Core => self.core.clear(),
            Place::Entry(store, index) => drop(self.list(store).entries.remove(index)),
        }
        Ok(())
    }

    /// Identifiers and texts of a store, or of all; an empty core memory is left out.
    pub fn texts(&self, store: Option<Store>) -> Vec<(String, &str)> {
        let wanted = |part: Store| store.is_none_or(|store| store == part);
        let mut texts = vec![];
        if wanted(Store::Core) && !self.core.is_empty() {
            texts.push((CORE.to_owned(), self.core.as_str()));
        }
        for (part, letter, list) in [(Store::Episodic, "e", &self.episodic), (Store::Semantic, "s", &self.semantic)] {
            if wanted(part) {
                texts.extend(list.entries.iter().map(|entry| (format!("{letter}{}", entry.number), &entry.text[..])));
            }
        }
        texts
    }

    /// Length of all memories together, in characters.
    pub fn chars(&self) -> usize {
        self.texts(None).iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Writes the memories and their limits into a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let writer = self.limits.write(writer).text(&self.core);
        [&self.episodic, &self.semantic].into_iter().fold(writer, |writer, list| {
            let head = writer.integer(list.inserted).integer(list.entries.len() as u64);
            list.entries.iter().fold(head, |writer, entry| writer.integer(entry.number).text(&entry.text))
        })
    }

    /// Reads the memories from a snapshot.
    ///
    /// # Errors
    ///
    /// Invalid bytes, and contents that the limits do not allow.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut stores = Self::new(Limits::read(reader)?);
        reader.text()?.clone_into(&mut stores.core);
        let sound = stores.core.is_empty() || stores.fits(Store::Core, &stores.core).is_ok();
        for store in [Store::Episodic, Store::Semantic] {
            let list = read_list(reader, &stores, store)?;
            *stores.list(store) = list;
        }
        if !sound || stores.chars() > stores.limits.total_chars {
            return Err(Error::bad_snapshot("the snapshot's memory is larger than its limits"));
        }
        Ok(stores)
    }

    fn list(&mut self, store: Store) -> &mut List {
        if store == Store::Episodic { &mut self.episodic } else { &mut self.semantic }
    }

    fn place(&self, id: &str) -> Result<Place, String> {
        if id == CORE {
            return Ok(Place::Core);
        }
        let found = [(Store::Episodic, "e", &self.episodic), (Store::Semantic, "s", &self.semantic)].into_iter();
        let mut found = found.filter_map(|(store, letter, list)| {
            let number = id.strip_prefix(letter)?;
            let index = list.entries.iter().position(|entry| entry.number.to_string() == number)?;
            Some(Place::Entry(store, index))
        });
        found.next().ok_or_else(|| format!("there is no entry `{id}`; memory_search lists the ids"))
    }

    fn set_core(&mut self, text: String) -> Result<(), String> {
        fits(&text, self.limits.core_chars, "the core memory")?;
        self.room(self.core.chars().count(), &text)?;
        self.core = text;
        Ok(())
    }

    /// Whether a text may be an entry of a store.
    fn fits(&self, store: Store, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err("`text` is empty: write what to remember, or use memory_delete".to_owned());
        }
        match store {
            Store::Core => fits(text, self.limits.core_chars, "the core memory"),
            Store::Episodic | Store::Semantic => fits(text, self.limits.entry_chars, "an entry"),
        }
    }

    /// Whether a text may replace this many characters.
    fn room(&self, old: usize, text: &str) -> Result<(), String> {
        let (total, most) = (self.chars() - old + text.chars().count(), self.limits.total_chars);
        if total <= most {
            return Ok(());
        }
        Err(format!("all memories would have {total} characters, at most {most} are allowed: shorten or delete some"))
    }
}

fn fits(text: &str, most: usize, what: &str) -> Result<(), String> {
    let length = text.chars().count();
    if length <= most {
        return Ok(());
    }
    Err(format!("{what} may have {most} characters, this would be {length}: shorten it"))
}

fn read_list(reader: &mut Reader<'_>, stores: &Stores, store: Store) -> Result<List, Error> {
    let mut list = List { inserted: reader.integer()?, entries: vec![] };
    let count = reader.integer()?;
    if count > stores.limits.entries as u64 || list.inserted > i64::MAX as u64 {
        return Err(Error::bad_snapshot("the snapshot's memory has too many entries"));
    }
    for _ in 0..count {
        let (number, text) = (reader.integer()?, reader.text()?);
        let last = list.entries.last().map_or(0, |entry| entry.number);
        if number <= last || number > list.inserted || stores.fits(store, text).is_err() {
            return Err(Error::bad_snapshot("the snapshot's memory has an unsound entry"));
        }
        list.entries.push(Entry { number, text: text.to_owned() });
    }
    Ok(list)
}
