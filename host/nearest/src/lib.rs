//! "Did you mean": the nearest known name of a misspelt one, by one metric and one threshold for all messages.

/// Similarity (Jaro-Winkler, 0 to 1) above which a known name is offered.
const THRESHOLD: f64 = 0.75;

/// Similarity of names that begin alike and differ by one letter: Jaro-Winkler rates short ones too low.
const ONE_LETTER: f64 = 0.8;

fn similarity(wrong: &str, name: &str) -> f64 {
    let begin_alike = wrong.len() > 1 && wrong.chars().next() == name.chars().next();
    let is_one_letter = begin_alike && strsim::damerau_levenshtein(wrong, name) == 1;
    strsim::jaro_winkler(wrong, name).max(if is_one_letter { ONE_LETTER } else { 0.0 })
}

/// The known name most similar to `wrong`, if one is similar enough.
#[must_use]
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (similarity(wrong, name), name))
        .filter(|(similarity, _)| *similarity > THRESHOLD)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, name)| name)
}

/// A clause to append to an error about an unknown name: `; did you mean …?`, or an empty text.
#[must_use]
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_that_differ_by_a_letter_are_near() {
        for (wrong, near) in
            [("rn", Some("run")), ("rnu", Some("run")), ("un", None), ("r", Some("run")), ("man", None)]
        {
            assert_eq!(nearest(wrong, ["run", "show", "yank"]), near, "{wrong}");
        }
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        assert_eq!(nearest("calculater", ["search", "calculator", "sql"]), Some("calculator"));
        assert_eq!(nearest("calculators", ["calculate", "calculator"]), Some("calculator"));
        assert_eq!(did_you_mean("trian", ["eval", "train"]), "; did you mean `train`?");
    }

    #[test]
    fn an_unrelated_name_has_no_neighbour() {
        assert_eq!(nearest("zebra", ["search", "calculator"]), None);
        assert_eq!(did_you_mean("zebra", []), "");
    }
}
