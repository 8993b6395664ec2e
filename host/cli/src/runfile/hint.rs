//! Turns the parser's words for an unknown key into a message that names the nearest known one.

/// The words of a TOML error, with "did you mean" where a key or a value is misspelt.
pub(super) fn explain(message: &str) -> String {
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

/// What stands behind a message about a wrong name: the candidate that is most like it, if there is one.
pub fn did_you_mean<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    nearest(wrong, candidates).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// The candidate that is most like `wrong`, if any is like it at all.
fn nearest<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(wrong, candidate);
    candidates
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}
