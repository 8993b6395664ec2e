//! Pages for browsers by their paths, and the cache of rendered ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_registry::PluginName;

/// Folder of the plugins' pages in a URL.
pub(super) const PLUGINS: &str = "plugins/";
/// Size limit of the rendered pages that are kept, in bytes (16 MiB).
const MAX_CACHE: usize = 16 << 20;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RegistryPage {
    /// All plugins.
    Overview,
    /// One plugin.
    Plugin(PluginName),
}

impl RegistryPage {
    /// Page at a path without its leading `/`.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        match path.strip_prefix(PLUGINS) {
            _ if path.is_empty() => Some(Self::Overview),
            Some(name) => name.parse().ok().map(Self::Plugin),
            None => None,
        }
    }
}

/// Rendered pages of the last state that was asked for.
#[derive(Debug, Default)]
pub(crate) struct PageCache(Mutex<RenderedPages>);

#[derive(Debug, Default)]
struct RenderedPages {
    /// Sequence number of the state.
    sequence: u64,
    pages: BTreeMap<RegistryPage, Arc<str>>,
    /// Size of the pages in bytes.
    bytes: usize,
}

impl PageCache {
    pub(super) fn get(&self, sequence: u64, page: &RegistryPage) -> Option<Arc<str>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.sequence == sequence { cached.pages.get(page).map(Arc::clone) } else { None }
    }

    pub(super) fn put(&self, sequence: u64, page: RegistryPage, text: Arc<str>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.sequence != sequence || cached.bytes + text.len() > MAX_CACHE {
            *cached = RenderedPages { sequence, ..RenderedPages::default() };
        }
        cached.bytes += text.len();
        cached.pages.insert(page, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pages_name_a_plugin() {
        assert_eq!(RegistryPage::from_path(""), Some(RegistryPage::Overview));
        let name = "acme/adder".parse().unwrap();
        assert_eq!(RegistryPage::from_path("plugins/acme/adder"), Some(RegistryPage::Plugin(name)));
        for path in ["plugins", "plugins/", "plugins/acme", "plugins/acme/../adder", "plugins/acme/a/b", "acme/adder"] {
            assert_eq!(RegistryPage::from_path(path), None, "{path}");
        }
    }

    #[test]
    fn the_cache_holds_one_state_and_is_bounded() {
        let cache = PageCache::default();
        let text = |size: usize| Arc::<str>::from("x".repeat(size));
        let plugin = RegistryPage::Plugin("acme/adder".parse().unwrap());
        cache.put(1, RegistryPage::Overview, text(10));
        cache.put(1, plugin.clone(), text(20));
        assert_eq!(cache.get(1, &RegistryPage::Overview).map(|page| page.len()), Some(10));
        assert_eq!(cache.get(2, &RegistryPage::Overview), None, "another state");
        cache.put(1, plugin.clone(), text(MAX_CACHE));
        assert_eq!(cache.get(1, &RegistryPage::Overview), None, "the cache was full");
        assert_eq!(cache.get(1, &plugin).map(|page| page.len()), Some(MAX_CACHE));
        cache.put(2, RegistryPage::Overview, text(1));
        assert_eq!(cache.get(1, &plugin), None, "an older state");
    }
}
