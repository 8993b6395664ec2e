//! Differences of two run files in words: each key with both values.

use std::collections::BTreeMap;

use gymkhana_config::RunFile;
use toml::Value;

use gymkhana_orchestration::{Classify, RunResult};

/// Maximum length of a value in a message, in characters.
const MAX_VALUE: usize = 80;

/// The keys that differ, such as `seed is 1 there and 2 here`.
pub(crate) fn describe(there: &RunFile, here: &RunFile) -> RunResult<String> {
    let (there, here) = (values(there)?, values(here)?);
    let mut keys: Vec<&String> = there.keys().chain(here.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let shown = |value: Option<&String>| value.map_or("unset".to_owned(), |value| shorten(value));
    let differing = keys.into_iter().filter(|key| there.get(*key) != here.get(*key));
    let described: Vec<String> = differing
        .map(|key| format!("{key} is {} there and {} here", shown(there.get(key)), shown(here.get(key))))
        .collect();
    Ok(described.join(", "))
}

/// Values of a resolved run file by their full keys.
fn values(file: &RunFile) -> RunResult<BTreeMap<String, String>> {
    let table: toml::Table = toml::from_str(&file.resolved().internal()?).internal()?;
    let mut values = BTreeMap::new();
    for (key, value) in table {
        flatten(key, value, &mut values);
    }
    Ok(values)
}

/// Adds the values below a key. Sections of a list are addressed by name as in `--set`; the list of the names is a value
/// as well, because their order counts.
fn flatten(key: String, value: Value, values: &mut BTreeMap<String, String>) {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    match value {
        Value::Table(table) => {
            for (inner, value) in table {
                flatten(format!("{key}.{inner}"), value, values);
            }
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| name(item).is_some()) => {
            let names: Vec<String> = items.iter().filter_map(name).collect();
            for (name, item) in names.iter().zip(items) {
                flatten(format!("{key}.{name}"), item, values);
            }
            values.insert(key, names.join(", "));
        }
        value => {
            values.insert(key, value.to_string());
        }
    }
}

fn shorten(value: &str) -> String {
    if value.chars().count() <= MAX_VALUE {
        return value.to_owned();
    }
    value.chars().take(MAX_VALUE).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        success = "environment.success"
        stages = [{ kind = "sft", steps = 2 }, { kind = "rl", steps = 4 }]
    "#;

    fn described(text: &str, sets: &[&str]) -> String {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let parse = |text: &str, sets: &[String]| RunFile::parse(text, "run.toml", sets).unwrap();
        describe(&parse(TEXT, &[]), &parse(text, &sets)).unwrap()
    }

    #[test]
    fn every_key_is_named_with_both_values() {
        assert_eq!(described(TEXT, &[]), "");
        assert_eq!(
            described(TEXT, &["stages.rl.steps=6", "seed=2", "policy.system=\"Be brief.\""]),
            "policy.system is unset there and \"Be brief.\" here, seed is 0 there and 2 here, stages.rl.steps is 4 \
             there and 6 here"
        );
        let long = described(TEXT, &[&format!("policy.system=\"{}\"", "a".repeat(200))]);
        assert_eq!(long, format!("policy.system is unset there and \"{}… here", "a".repeat(79)));
    }

    #[test]
    fn the_order_of_stages_counts() {
        let swapped = r#"
            success = "environment.success"
            stages = [{ kind = "rl", steps = 4 }, { kind = "sft", steps = 2 }]
        "#;
        assert_eq!(described(swapped, &[]), "stages is sft, rl there and rl, sft here");
    }
}
