//! Suggestion of a similar plugin name.

use gymkhana_registry::PluginName;

/// Minimum Jaro-Winkler similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns the known plugin whose full or short name is most similar to a misspelt one.
pub(crate) fn nearest<'a>(misspelt: &str, known: impl Iterator<Item = &'a PluginName>) -> Option<PluginName> {
    let similarity = |name: &PluginName| {
        strsim::jaro_winkler(misspelt, &name.to_string()).max(strsim::jaro_winkler(misspelt, name.name()))
    };
    known
        .map(|name| (similarity(name), name))
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_name_is_suggested() {
        let known: Vec<PluginName> = ["acme/adder", "acme/other"].iter().map(|name| name.parse().unwrap()).collect();
        assert_eq!(nearest("addr", known.iter()).map(|name| name.to_string()).as_deref(), Some("acme/adder"));
        assert_eq!(nearest("acme/addr", known.iter()).map(|name| name.to_string()).as_deref(), Some("acme/adder"));
        assert_eq!(nearest("zebra", known.iter()), None);
    }
}
