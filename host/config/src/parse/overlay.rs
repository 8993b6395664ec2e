//! `--set key=value`: replaces one value of the run file on the command line.

use toml::{Table, Value};

use crate::error::RunFileError;

/// Inserts `key=value` into the table. Dots separate the parts of a key; a stage or an environment is addressed by its
/// index or its name.
/// The value is parsed as TOML; other text is a string.
pub(crate) fn apply(table: &mut Table, text: &str) -> Result<(), RunFileError> {
    let wrong = |reason: String| RunFileError::Set { text: text.to_owned(), reason };
    let (key, value) = text.split_once('=').ok_or_else(|| wrong("no `=`\nhint: write it as key=value".to_owned()))?;
    let parts: Vec<&str> = key.trim().split('.').collect();
    let Some((last, path)) = parts.split_last().filter(|_| parts.iter().all(|part| !part.is_empty())) else {
        return Err(wrong("a part of the key is empty\nhint: write it as SECTION.KEY=VALUE".to_owned()));
    };
    let mut place = &mut *table;
    let mut index = 0;
    while index < path.len() {
        let part = path[index];
        let entry = place.entry(part).or_insert_with(|| Value::Table(Table::new()));
        place = match entry {
            Value::Table(inner) => inner,
            Value::Array(items) => {
                index += 1;
                let names: Vec<String> = items.iter().map(name_of).collect();
                let Some(wanted) = path.get(index).copied() else {
                    let reason =
                        format!("`{part}.{last}` is a section\nhint: name one of its keys: `{part}.{last}.KEY`");
                    return Err(wrong(reason));
                };
                let found = wanted.parse().ok().or_else(|| names.iter().position(|name| name == wanted));
                match found.and_then(|place: usize| items.get_mut(place)) {
                    Some(Value::Table(inner)) => inner,
                    _ => {
                        return Err(wrong(format!(
                            "`{part}` has no `{wanted}`\nhint: use one of {}",
                            names.join(", ")
                        )));
                    }
                }
            }
            _ => return Err(wrong(format!("`{part}` is a value\nhint: keys exist in sections only"))),
        };
        index += 1;
    }
    place.insert((*last).to_owned(), parse_value(value.trim()));
    // A resolved run file has the size of its model, which a checkpoint replaces.
    if parts.starts_with(&["policy", "checkpoint"])
        && let Some(Value::Table(policy)) = table.get_mut("policy")
    {
        policy.remove("tiny");
    }
    Ok(())
}

/// Name of a list's entry, or what it is named after: its kind or its plugin; empty if it has none of them.
pub(crate) fn name_of(item: &Value) -> String {
    item.get("name")
        .or_else(|| item.get("kind"))
        .or_else(|| item.get("plugin"))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The value that a text spells in TOML; the text itself if it spells none.
pub(crate) fn parse_value(text: &str) -> Value {
    let parsed: Result<Table, _> = toml::from_str(&format!("value = {text}"));
    parsed.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.to_owned()))
}
