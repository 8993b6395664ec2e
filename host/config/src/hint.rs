//! Hints on the parser's messages: the nearest known name of a misspelt one, or the place to correct.

use gymkhana_nearest::nearest;

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

/// Reads the names from "unknown field `x`, expected one of `a`, `b`".
fn nearest_of(message: &str) -> Option<&str> {
    let at = message.find("unknown field `").or_else(|| message.find("unknown variant `"))?;
    let mut quoted = message[at..].split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    nearest(wrong, quoted)
}
