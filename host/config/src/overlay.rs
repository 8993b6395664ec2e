//! `--set key=value`: one value of the run file replaced on the command line.

use toml::{Table, Value};

use crate::error::RunFileError;

/// Puts `key=value` into the table. A key's parts are parted by dots; a stage is named by its place or its name.
/// The value is TOML; what is no TOML is text.
pub(crate) fn apply(table: &mut Table, text: &str) -> Result<(), RunFileError> {
    let wrong = |reason: String| RunFileError::Set { text: text.to_owned(), reason };
    let (key, value) = text.split_once('=').ok_or_else(|| wrong("write it as key=value".to_owned()))?;
    let parts: Vec<&str> = key.trim().split('.').collect();
    let Some((last, path)) = parts.split_last().filter(|_| parts.iter().all(|part| !part.is_empty())) else {
        return Err(wrong("a part of the key is empty".to_owned()));
    };
    let mut place = table;
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
                        format!("`{part}.{last}` is a section: name a key of it too, as in `{part}.{last}.KEY`");
                    return Err(wrong(reason));
                };
                let found = wanted.parse().ok().or_else(|| names.iter().position(|name| name == wanted));
                match found.and_then(|place: usize| items.get_mut(place)) {
                    Some(Value::Table(inner)) => inner,
                    _ => return Err(wrong(format!("`{part}` has no `{wanted}`; it has {}", names.join(", ")))),
                }
            }
            _ => return Err(wrong(format!("`{part}` is a value, not a section"))),
        };
        index += 1;
    }
    place.insert((*last).to_owned(), parse_value(value.trim()));
    Ok(())
}

fn name_of(item: &Value) -> String {
    item.get("name").or_else(|| item.get("kind")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn parse_value(text: &str) -> Value {
    let parsed: Result<Table, _> = toml::from_str(&format!("value = {text}"));
    parsed.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.to_owned()))
}
