//! Values, ranges and names in the words of the page.

use serde_json::Value;

use crate::schema::RANGE;

/// A value as TOML.
pub(crate) fn toml_value(value: &Value) -> String {
    if let Some(number) = value.as_f64().filter(|_| value.is_f64()) {
        return format!("{number:?}");
    }
    let value: Option<toml::Value> = serde_json::from_value(value.clone()).ok();
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A number without a fraction of 0.
pub(crate) fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        _ => value.to_string(),
    }
}

/// The range of a key, from its words or its bounds.
pub(crate) fn range(schema: &Value) -> String {
    if let Some(words) = schema[RANGE].as_str() {
        return words.to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        return listed(words.iter());
    }
    let bound = |key: &str, word: &str| schema.get(key).map(|bound| format!("{word} {}", number(bound)));
    let low = bound("minimum", "at least").or(bound("exclusiveMinimum", "above"));
    let high = bound("maximum", "at most").or(bound("exclusiveMaximum", "below"));
    match (low, high, schema.get("minItems")) {
        (Some(_), Some(_), _) if schema.get("minimum").and(schema.get("maximum")).is_some() => {
            format!("{} to {}", number(&schema["minimum"]), number(&schema["maximum"]))
        }
        (Some(low), Some(high), _) => format!("{low}, {high}"),
        (Some(bound), None, _) | (None, Some(bound), _) => bound,
        (None, None, Some(_)) => "at least one".to_owned(),
        (None, None, None) => String::new(),
    }
}

/// Words of a key as code, separated by commas.
pub(super) fn listed<'a>(words: impl Iterator<Item = &'a Value>) -> String {
    words.filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A sentence as a clause: without its full stop, and with a small first letter unless the first word is a name.
pub(super) fn clause(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let first = sentence.split(' ').next().unwrap_or_default();
    let mut letters = sentence.chars();
    match letters.next() {
        Some(letter) if !first.chars().skip(1).any(char::is_uppercase) => {
            letter.to_lowercase().chain(letters).collect()
        }
        _ => sentence.to_owned(),
    }
}

/// A link to a heading of the page, by the anchor that Markdown renderers give it.
pub(super) fn link(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' ');
    let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
    format!("[{heading}](#{})", anchor.replace(' ', "-"))
}

/// Text as one cell of a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ranges_in_words() {
        for (schema, words) in [
            (json!({ "minimum": 1, "maximum": 256 }), "1 to 256"),
            (json!({ "minimum": -1e6, "maximum": 1e6 }), "-1000000 to 1000000"),
            (json!({ "minimum": 0.001, "maximum": 3600 }), "0.001 to 3600"),
            (json!({ "minimum": 0, "exclusiveMaximum": 1 }), "at least 0, below 1"),
            (json!({ "exclusiveMinimum": 0, "maximum": 1 }), "above 0, at most 1"),
            (json!({ "exclusiveMinimum": 0 }), "above 0"),
            (json!({ "minItems": 1 }), "at least one"),
            (json!({ "enum": ["sft", "rl"] }), "`sft`, `rl`"),
            (json!({ "minimum": 1, RANGE: "1 to `most`" }), "1 to `most`"),
            (json!({ "type": "boolean" }), ""),
        ] {
            assert_eq!(range(&schema), words, "{schema}");
        }
    }

    #[test]
    fn text_in_cells() {
        assert_eq!(toml_value(&json!({ "kind": "groups" })), "{ kind = \"groups\" }");
        assert_eq!((toml_value(&json!(1e-8)), toml_value(&json!(600.0))), ("1e-8".to_owned(), "600.0".to_owned()));
        assert_eq!(clause("A model whose weights never change."), "a model whose weights never change");
        assert_eq!(clause("DeepSeek's control tokens."), "DeepSeek's control tokens");
        assert_eq!(link("`[seats.NAME]`"), "[`[seats.NAME]`](#seatsname)");
        assert_eq!(link("Models by folder or hub"), "[Models by folder or hub](#models-by-folder-or-hub)");
        assert_eq!(cell("a |\n b"), "a \\| b");
    }
}
