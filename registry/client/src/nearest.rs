//! Suggestion of a similar plugin name.

use gymkhana_registry::PluginName;

/// Returns the known plugin whose full or short name is most similar to a misspelt one.
pub(crate) fn nearest<'a>(misspelt: &str, known: impl Iterator<Item = &'a PluginName>) -> Option<PluginName> {
    let names: Vec<(String, &PluginName)> =
        known.flat_map(|name| [(name.to_string(), name), (name.name().to_owned(), name)]).collect();
    let similar = gymkhana_nearest::nearest(misspelt, names.iter().map(|(text, _)| text.as_str()))?;
    names.iter().find(|(text, _)| text == similar).map(|(_, name)| (*name).clone())
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
