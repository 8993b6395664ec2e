//! Tables of keys, one row per key.

use serde_json::{Map, Value};

use super::sections::{Section, section_of};
use super::words::{cell, clause, link, listed, range, toml_value};
use crate::schema::{DEFAULT, RANGE, target};

/// Writer of the tables of a schema.
pub(super) struct Tables<'a> {
    definitions: &'a Value,
}

/// A key that is not required, or the reason why it is.
#[derive(Clone, Copy)]
enum Need<'a> {
    /// May be left out.
    Optional,
    /// Must be given; the text says when.
    Required(&'a str),
}

impl<'a> Tables<'a> {
    /// The tables of a schema's definitions.
    pub fn new(schema: &'a Value) -> Self {
        Self { definitions: &schema["$defs"] }
    }

    /// The description of a type.
    pub fn description(&self, name: &str) -> String {
        self.definitions[name]["description"].as_str().unwrap_or_default().to_owned()
    }

    /// The keys of a type: one table, or for a type of several kinds a table of kinds and one of their keys. Empty for
    /// a type without keys of its own.
    pub fn of(&self, name: &str, section: &Section) -> String {
        let definition = &self.definitions[name];
        match definition["oneOf"].as_array() {
            Some(kinds) if kinds.iter().all(|kind| kind.get("properties").is_some()) => self.kinds(kinds, section),
            _ => self.keys(definition, section),
        }
    }

    /// The keys of a table.
    pub fn keys(&self, table: &Value, section: &Section) -> String {
        let rows = self.rows(table, "", section.required);
        if rows.is_empty() {
            return String::new();
        }
        let head = "| key | type | default | range | meaning |\n| --- | --- | --- | --- | --- |\n";
        rows.iter().fold(head.to_owned(), |page, row| page + &format!("| {row} |\n"))
    }

    /// The kinds of a type, then the keys of those that have any.
    fn kinds(&self, kinds: &[Value], section: &Section) -> String {
        let tag = kinds.iter().find_map(tag).unwrap_or_default();
        let mut meanings = format!("| `{tag}` | meaning |\n| --- | --- |\n");
        let mut keys = String::new();
        for kind in kinds {
            let word = kind["properties"][tag]["const"].as_str().unwrap_or_default();
            let meaning = kind["description"].as_str().unwrap_or_default();
            meanings += &format!("| `{word}` | {} |\n", cell(meaning));
            for row in self.rows(kind, "", section.required) {
                keys += &format!("| `{word}` | {row} |\n");
            }
        }
        if keys.is_empty() {
            return meanings;
        }
        let head = "key | type | default | range | meaning |\n| --- | --- | --- | --- | --- | --- |";
        format!("{meanings}\n| `{tag}` | {head}\n{keys}")
    }

    /// One row per key, without the outer bars. Tables without a section of their own give a row per inner key.
    fn rows(&self, table: &Value, prefix: &str, when: &str) -> Vec<String> {
        let required: Vec<&Value> = table["required"].as_array().into_iter().flatten().collect();
        let properties = table["properties"].as_object().into_iter().flatten();
        let mut rows = Vec::new();
        for (name, key) in properties.filter(|(_, key)| key.get("const").is_none()) {
            let name_of = format!("{prefix}{name}");
            let inner = target(key).filter(|inner| section_of(inner).is_none()).map(|inner| &self.definitions[inner]);
            if let Some(inner) = inner.filter(|inner| inner.get("properties").is_some()) {
                rows.extend(self.rows(inner, &format!("{name_of}."), &format!("required with `{name_of}`")));
                continue;
            }
            let needed = required.iter().any(|required| *required == name);
            let need = if needed { Need::Required(when) } else { Need::Optional };
            let cells = [self.kind(key), default(key, need), self.range(key), self.meaning(key)];
            rows.push(format!("`{name_of}` | {}", cells.map(|text| cell(&text)).join(" | ")).replace("|  |", "| |"));
        }
        rows
    }

    /// The type of a key, in the words of TOML.
    fn kind(&self, key: &Value) -> String {
        if let Some(name) = target(key) {
            return self.kind(&self.definitions[name]);
        }
        let choices = key.get("anyOf").or(key.get("oneOf")).filter(|_| key.get("type").is_none());
        if let Some(choices) = choices.and_then(Value::as_array) {
            let mut kinds: Vec<String> = choices.iter().map(|choice| self.kind(choice)).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
        let inner = |key: &Value| match self.kind(key).as_str() {
            "table" => "tables".to_owned(),
            other => other.to_owned(),
        };
        match key["type"].as_str().unwrap_or_default() {
            "string" => "text".to_owned(),
            "array" => format!("list of {}", inner(&key["items"])),
            "object" => match key.get("additionalProperties").filter(|inner| inner.is_object()) {
                Some(entries) => format!("table of {}", inner(entries)),
                None => "table".to_owned(),
            },
            other => other.to_owned(),
        }
    }

    /// The range of a key: its words or bounds, and the section that describes its keys.
    fn range(&self, key: &Value) -> String {
        let entries = [key.get("items"), key.get("additionalProperties")].into_iter().flatten();
        let named = std::iter::once(key).chain(entries).find_map(target);
        let section = named.and_then(section_of).map(|section| format!("see {}", link(section.heading)));
        let named_words = named.filter(|_| key.get(RANGE).is_none()).map(|name| words(&self.definitions[name]));
        let listed = named_words.map(|words| listed(words.map(|(word, _)| word))).filter(|words| !words.is_empty());
        let own = match (listed, range(key)) {
            (Some(words), bound) if bound.is_empty() => words,
            (Some(words), bound) => format!("{bound} of {words}"),
            (None, bound) => bound,
        };
        [Some(own), section].into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The meaning of a key, with the meanings of its words.
    fn meaning(&self, key: &Value) -> String {
        let own = key["description"].as_str().unwrap_or_default();
        let named = std::iter::once(key).chain(key.get("items")).find_map(target);
        let words = named.into_iter().flat_map(|name| words(&self.definitions[name]));
        let words = words.filter_map(|(word, meaning)| Some(format!("`{}`: {}", word.as_str()?, clause(meaning?))));
        let words: Vec<String> = words.collect();
        if words.is_empty() { own.to_owned() } else { format!("{own} {}.", words.join("; ")) }
    }
}

/// The words of a type whose values are words, with their meanings.
fn words(definition: &Value) -> impl Iterator<Item = (&Value, Option<&str>)> {
    let plain = definition["enum"].as_array().into_iter().flatten().map(|word| (word, None));
    let choices = definition["oneOf"].as_array().into_iter().flatten();
    plain.chain(choices.filter_map(|choice| Some((choice.get("const")?, choice["description"].as_str()))))
}

/// The key that tells the kinds of a type apart.
fn tag(kind: &Value) -> Option<&str> {
    let properties: &Map<String, Value> = kind["properties"].as_object()?;
    properties.iter().find(|(_, key)| key.get("const").is_some()).map(|(name, _)| name.as_str())
}

fn default(key: &Value, need: Need<'_>) -> String {
    match (key[DEFAULT].as_str(), need, key.get("default")) {
        (Some(words), ..) => words.to_owned(),
        (None, Need::Required(when), _) => when.to_owned(),
        (None, Need::Optional, Some(default)) => format!("`{}`", toml_value(default)),
        (None, Need::Optional, None) => "unset".to_owned(),
    }
}
