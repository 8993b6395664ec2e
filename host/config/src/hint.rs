//! Adds a hint to the parser's message for an unknown key: the nearest known one.

use gymkhana_nearest::nearest;

/// A TOML error message, with a hint where a key or a value is misspelt.
pub(crate) fn explain(message: &str) -> String {
    // serde says this of a section whose variant has no keys of its own.
    let message = message.trim_end().replace("there are no fields", "it has 0 keys");
    let message = message.as_str();
    match nearest_of(message) {
        Some(nearest) => format!("{message}\nhint: did you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}

/// Reads the names from "unknown field `x`, expected one of `a`, `b`".
fn nearest_of(message: &str) -> Option<&str> {
    let at = message.find("unknown field `").or_else(|| message.find("unknown variant `"))?;
    let mut quoted = message[at..].split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    nearest(wrong, quoted)
}
