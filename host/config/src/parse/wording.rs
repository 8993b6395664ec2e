//! Hints on the parser's messages: the nearest known name of a misspelt one, or the place to correct.

use gymkhana_nearest::nearest;

/// Note on an unknown key of a section whose kind has no keys of its own.
const NO_KEYS: &str = "but the section has no other keys";

/// A TOML error message with a hint. `place_of` says where a key is valid that its section lacks.
pub(crate) fn explain(message: &str, place_of: impl Fn(&str) -> Option<String>) -> String {
    // Some types give a hint of their own.
    if message.contains("\nhint: ") {
        return message.trim_end().to_owned();
    }
    let message = message.trim_end().replace("there are no fields", NO_KEYS);
    let hint = hint_on(&message, place_of);
    format!("{message}\nhint: {hint}")
}

fn hint_on(message: &str, place_of: impl Fn(&str) -> Option<String>) -> String {
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

/// Reads the names from "unknown field `x`, expected one of `a`, `b`".
fn nearest_of(message: &str) -> Option<&str> {
    let at = message.find("unknown field `").or_else(|| message.find("unknown variant `"))?;
    let mut quoted = message[at..].split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    nearest(wrong, quoted)
}
