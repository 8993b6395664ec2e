//! Suggestion of a similar plugin name.

use gymkhana_nearest::nearest as nearest_text;
use gymkhana_registry::PluginName;

/// Returns the known plugin that is most similar to a misspelt name. Of a name with a namespace, both parts must be similar:
/// two plugins of one namespace are not alike for that.
pub(crate) fn nearest<'a>(misspelt: &str, known: impl Iterator<Item = &'a PluginName>) -> Option<PluginName> {
    let is_near = |wrong: &str, known: &str| nearest_text(wrong, [known]).is_some();
    let text = |name: &PluginName| match misspelt.split_once('/') {
        Some((namespace, short)) => {
            let is_similar = is_near(namespace, name.namespace()) && is_near(short, name.name());
            is_similar.then(|| name.to_string())
        }
        None => Some(name.name().to_owned()),
    };
    let names: Vec<(String, &PluginName)> = known.filter_map(|name| Some((text(name)?, name))).collect();
    let similar = nearest_text(misspelt, names.iter().map(|(text, _)| text.as_str()))?;
    names.iter().find(|(text, _)| text == similar).map(|(_, name)| (*name).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_name_is_suggested() {
        let known: Vec<PluginName> = ["acme/adder", "acme/other"].iter().map(|name| name.parse().unwrap()).collect();
        let near = |text: &str| nearest(text, known.iter()).map(|name| name.to_string());
        for misspelt in ["addr", "acme/addr", "acne/adder"] {
            assert_eq!(near(misspelt).as_deref(), Some("acme/adder"), "{misspelt}");
        }
        for unlike in ["zebra", "acme/zebra", "elsewhere/adder"] {
            assert_eq!(near(unlike), None, "{unlike}");
        }
    }
}
