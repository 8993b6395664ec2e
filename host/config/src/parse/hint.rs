//! Hints on the parser's messages: the nearest known name of a misspelt one, or the place to correct.

use gymkhana_nearest::nearest;
use serde_json::Value;

use crate::schema::{cached_schema, target};

/// Note on an unknown key of a section whose kind has no keys of its own.
const NO_KEYS: &str = "but the section has no other keys";

/// A TOML error message with a hint.
pub(crate) fn explain(message: &str) -> String {
    // Some types give a hint of their own.
    if message.contains("\nhint: ") {
        return message.trim_end().to_owned();
    }
    let message = message.trim_end().replace("there are no fields", NO_KEYS);
    let hint = hint_on(&message);
    format!("{message}\nhint: {hint}")
}

fn hint_on(message: &str) -> String {
    if let Some(nearest) = nearest_of(message) {
        return format!("did you mean `{nearest}`?");
    }
    if let Some(place) = unknown_key(message).and_then(place_of) {
        return place;
    }
    let fixed = if message.contains(NO_KEYS) {
        "remove it"
    } else if message.contains("unknown field `") {
        "use one of the expected keys, or remove it"
    } else if message.contains("unknown variant `") {
        "use one of the expected values"
    } else if message.contains("missing field `kind`") {
        "add `kind`; docs/reference/run-file.md lists the kinds"
    } else if message.starts_with("TOML parse error at line ") {
        "correct the line that is shown"
    } else {
        "docs/reference/run-file.md lists every key with its type and range"
    };
    fixed.to_owned()
}

/// The key of the message "unknown field `x`, …".
fn unknown_key(message: &str) -> Option<&str> {
    message.split_once("unknown field `")?.1.split('`').next()
}

/// Where a key is valid that its section lacks: at the top level, in stages of another kind, or in another section.
fn place_of(key: &str) -> Option<String> {
    let schema = cached_schema();
    let has_key = |schema: &Value| schema["properties"].get(key).is_some();
    if has_key(schema) {
        return Some(format!("`{key}` is a key of the top level: write it above the first section"));
    }
    let of_type = |name: &str| has_key(&schema["$defs"][name]);
    let kinds: Vec<String> =
        STAGES.into_iter().filter(|(_, name)| of_type(name)).map(|(kind, _)| format!("`{kind}`")).collect();
    if !kinds.is_empty() {
        return Some(format!(
            "`{key}` is a key of stages of the kind {}; remove it from this section",
            kinds.join(" or ")
        ));
    }
    let sections = schema["properties"].as_object()?.iter();
    let names: Vec<String> = sections
        .filter(|(_, section)| target(section).is_some_and(of_type))
        .map(|(name, _)| format!("[{name}]"))
        .collect();
    (!names.is_empty()).then(|| format!("`{key}` is a key of {}; remove it from this section", names.join(" and ")))
}

/// Kinds of stages with the names of their types.
const STAGES: [(&str, &str); 3] = [("sft", "SftStage"), ("best-of-n", "BestOfNStage"), ("rl", "RlStage")];

/// Reads the names from "unknown field `x`, expected one of `a`, `b`".
fn nearest_of(message: &str) -> Option<&str> {
    let at = message.find("unknown field `").or_else(|| message.find("unknown variant `"))?;
    let mut quoted = message[at..].split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    nearest(wrong, quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_place_is_told_where_it_belongs() {
        let hint = |key: &str| hint_on(&format!("unknown field `{key}`, expected one of `name`, `algorithm`"));
        assert_eq!(
            hint("deterministic"),
            "`deterministic` is a key of the top level: write it above the first section"
        );
        assert_eq!(
            hint("train_observations"),
            "`train_observations` is a key of stages of the kind `sft`; remove it from this section"
        );
        assert_eq!(hint("reply_tokens"), "`reply_tokens` is a key of [limits]; remove it from this section");
        assert_eq!(hint("algoritm"), "did you mean `algorithm`?");
        assert_eq!(hint("colour"), "use one of the expected keys, or remove it");
    }
}
