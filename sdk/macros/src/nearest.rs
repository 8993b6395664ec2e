//! "Did you mean": nearest known word to a misspelt one.

/// Lists `known` after the nearest word, such as "did you mean `a`? known: `a`, `b`".
pub fn advice(word: &str, known: &[&str]) -> String {
    let listed = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match known.iter().max_by(|a, b| strsim::jaro(word, a).total_cmp(&strsim::jaro(word, b))) {
        Some(nearest) if strsim::jaro(word, nearest) > 0.6 => format!("did you mean `{nearest}`? known: {listed}"),
        _ => format!("known: {listed}"),
    }
}
