//! Turns the parser's words for an unknown key into a message that names the nearest known one.

use gymkhana_nearest::nearest;

/// The words of a TOML error, with "did you mean" where a key or a value is misspelt.
pub(crate) fn explain(message: &str) -> String {
    let message = message.trim_end();
    match nearest_of(message) {
        Some(nearest) => format!("{message}\nDid you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}

/// The parser says: unknown field `x`, expected one of `a`, `b`.
fn nearest_of(message: &str) -> Option<&str> {
    let at = message.find("unknown field `").or_else(|| message.find("unknown variant `"))?;
    let mut quoted = message[at..].split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    nearest(wrong, quoted)
}
