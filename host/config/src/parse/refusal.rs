//! A run file that serde refuses, in words: the key, its value, and what to write instead.

use gymkhana_algorithm::Preset;
use serde_json::Value as Schema;
use toml::de::{DeTable, Error};
use toml::{Table, Value};

use crate::parse::hint;
use crate::parse::mismatch::{Mismatch, PathStep, exceeded, fits};
use crate::parse::overlay::{name_of, parse_value};
use crate::reference::words::{range, toml_value};

/// Reason why a run file is refused.
pub(crate) enum RunFileRefusal {
    /// A value has another type, or is beyond a bound.
    Value(Box<Mismatch>),
    /// The `kind` of a stage is the name of an algorithm.
    Algorithm {
        /// Place of the stage, from 0.
        stage: usize,
        /// The algorithm.
        name: String,
    },
    /// A key is unknown or missing, or a word is.
    Parser(Error),
}

impl RunFileRefusal {
    /// The refusal of a table whose values have the right types, from the parser's error.
    pub fn of_parser(error: Error, table: &Table) -> Self {
        algorithm_as_kind(error.message(), table).unwrap_or(Self::Parser(error))
    }

    /// Whether both have the same cause.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(one), Self::Value(other)) => one.path == other.path && one.value == other.value,
            (Self::Algorithm { name: one, .. }, Self::Algorithm { name: other, .. }) => one == other,
            (Self::Parser(one), Self::Parser(other)) => one.message() == other.message(),
            _ => false,
        }
    }

    /// The message about the text of a run file, with the line.
    pub fn in_file(&self, text: &str, table: &Table) -> String {
        match self {
            Self::Value(mismatch) => {
                let message = sentence(mismatch, &place_in_file(&mismatch.path, table));
                at_line(text, &mismatch.path, &message)
            }
            Self::Algorithm { stage, name } => {
                let path =
                    [PathStep::Key("stages".to_owned()), PathStep::Index(*stage), PathStep::Key("kind".to_owned())];
                at_line(text, &path, &no_kind(name))
            }
            Self::Parser(error) => hint::explain(error.message()),
        }
    }

    /// The message about a value that `--set` gave.
    pub fn in_set(&self, table: &Table) -> String {
        match self {
            Self::Value(mismatch) => sentence(mismatch, &format!("`{}`", dotted(&mismatch.path, table))),
            Self::Algorithm { name, .. } => no_kind(name),
            Self::Parser(error) => hint::explain(error.message()),
        }
    }
}

/// The first stage whose kind is an algorithm that a message of serde is about.
fn algorithm_as_kind(message: &str, table: &Table) -> Option<RunFileRefusal> {
    let name = message.strip_prefix("unknown variant `")?.split('`').next()?;
    let stages = table.get("stages")?.as_array()?;
    let stage = stages.iter().position(|stage| stage.get("kind").and_then(Value::as_str) == Some(name))?;
    Preset::names().any(|preset| preset == name).then(|| RunFileRefusal::Algorithm { stage, name: name.to_owned() })
}

fn no_kind(name: &str) -> String {
    format!("`{name}` is an algorithm, not a kind of stage\nhint: write `kind = \"rl\"` and `algorithm = \"{name}\"`")
}

/// Message about a value and the correction.
fn sentence(mismatch: &Mismatch, place: &str) -> String {
    let Mismatch { value, schema, .. } = mismatch;
    // The value that a text spells: 20 for "20".
    let spelled = value.as_str().map(parse_value).filter(|spelled| !spelled.is_str() && fits(spelled, schema));
    let shown = match value {
        Value::String(_) if spelled.is_some() => "text".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    };
    let must = exceeded(value, schema).unwrap_or_else(|| kind(schema).to_owned());
    let hint = match spelled {
        Some(spelled) => format!("write {}", assignment(&mismatch.path, &spelled.to_string())),
        None => remedy(mismatch),
    };
    format!("{place} is {shown}; it must be {must}\nhint: {hint}")
}

/// The type of a value, in words.
fn kind(schema: &Schema) -> &'static str {
    match schema["type"].as_str() {
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "a table",
        _ => "text",
    }
}

/// Correction of a value of another type.
fn remedy(mismatch: &Mismatch) -> String {
    let Mismatch { path, value, schema } = mismatch;
    let example = schema.get("const").or(schema["enum"].get(0)).or(schema.get("default")).map(toml_value);
    match schema["type"].as_str() {
        Some("integer" | "number") => match range(schema) {
            bounds if bounds.is_empty() => {
                format!("write a number, such as {}", assignment(path, &example.unwrap_or_else(|| "1".to_owned())))
            }
            bounds => format!("its range is {bounds}"),
        },
        Some("boolean") => format!("write {} or {}", assignment(path, "true"), assignment(path, "false")),
        Some("array") if value.is_str() && schema["items"]["type"] == "string" => {
            format!("write {}", assignment(path, &format!("[{value}]")))
        }
        Some("array") => format!("write it in brackets: {}", assignment(path, "[…]")),
        Some("object") => {
            let table = assignment(path, &example_of_table(schema));
            format!("write a table, such as {table}; to leave it out, remove it from the run file")
        }
        _ => format!("write a text, such as {}", assignment(path, &example.unwrap_or_else(|| "\"…\"".to_owned()))),
    }
}

/// A table with its first key.
fn example_of_table(schema: &Schema) -> String {
    let first = schema["properties"].as_object().and_then(|keys| keys.iter().next());
    let Some((key, inner)) = first else { return "{ NAME = … }".to_owned() };
    let value = inner.get("const").or(inner.get("default")).map_or_else(|| "…".to_owned(), toml_value);
    format!("{{ {key} = {value}, … }}")
}

/// `key = value`, or the value alone if it is an entry of a list.
fn assignment(path: &[PathStep], value: &str) -> String {
    match path.last() {
        Some(PathStep::Key(key)) => format!("`{key} = {value}`"),
        _ => format!("`{value}`"),
    }
}

/// A key of a stage by the stage's name, another one in dotted form.
fn place_in_file(path: &[PathStep], table: &Table) -> String {
    match path {
        [PathStep::Key(section), PathStep::Index(_), rest @ ..] if section == "stages" && !rest.is_empty() => {
            let stage = dotted(&path[..2], table);
            format!("stage `{}`: `{}`", stage.trim_start_matches("stages."), dotted(rest, &Table::new()))
        }
        _ => format!("`{}`", dotted(path, table)),
    }
}

/// A path as `--set` takes it: an entry of a list by its name, or by its place if it has none.
fn dotted(path: &[PathStep], table: &Table) -> String {
    let mut parts = Vec::new();
    let mut place: Option<&Value> = None;
    for step in path {
        match step {
            PathStep::Key(key) => {
                place = place.map_or_else(|| table.get(key), |place| place.get(key));
                parts.push(key.clone());
            }
            PathStep::Index(index) => {
                place = place.and_then(|place| place.get(*index));
                let name = place.map(name_of).filter(|name| !name.is_empty());
                parts.push(name.unwrap_or_else(|| index.to_string()));
            }
        }
    }
    parts.join(".")
}

/// A message after the line of its value.
fn at_line(text: &str, path: &[PathStep], message: &str) -> String {
    match line(text, path) {
        Some(line) => format!("line {line}: {message}"),
        None => message.to_owned(),
    }
}

/// Line of a value, from 1.
fn line(text: &str, path: &[PathStep]) -> Option<usize> {
    let (PathStep::Key(first), rest) = path.split_first()? else { return None };
    let document = DeTable::parse(text).ok()?;
    let mut place = document.get_ref().get(first.as_str())?;
    for step in rest {
        place = match step {
            PathStep::Key(key) => place.get_ref().get(key.as_str())?,
            PathStep::Index(index) => place.get_ref().get(*index)?,
        };
    }
    Some(text.get(..place.span().start)?.matches('\n').count() + 1)
}
