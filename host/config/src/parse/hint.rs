//! Hints on the parser's messages, with the place of a key that its section lacks.

use serde_json::Value;

use crate::parse::wording;
use crate::schema::{cached_schema, target};

/// A TOML error message with a hint.
pub(crate) fn explain(message: &str) -> String {
    wording::explain(message, place_of)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_place_is_told_where_it_belongs() {
        let hint = |key: &str| {
            let explained = explain(&format!("unknown field `{key}`, expected one of `name`, `algorithm`"));
            explained.split_once("\nhint: ").unwrap().1.to_owned()
        };
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
