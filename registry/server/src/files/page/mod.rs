//! Pages for a browser, as HTML without scripts: the registry's plugins at `/`, and one plugin at
//! `/plugins/NAMESPACE/NAME`.
//!
//! Names and texts come from publishers. They are escaped, and the content security policy forbids everything else that a
//! page could load or run.

mod html;
mod overview;
mod plugin;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use gymkhana_registry::{FolderReadError, IndexRow, PluginName};

use crate::http_error::HttpError;
use crate::service::RegistryService;

/// Folder of the plugins' pages in a URL.
const PLUGINS: &str = "plugins/";
/// Size limit of the rendered pages that are kept, in bytes (16 MiB).
const MAX_CACHE: usize = 16 << 20;
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Page {
    /// All plugins.
    Overview,
    /// One plugin.
    Plugin(PluginName),
}

impl Page {
    /// Page at a path without its leading `/`.
    pub fn from_path(path: &str) -> Option<Self> {
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
    pages: BTreeMap<Page, Arc<str>>,
    /// Size of the pages in bytes.
    bytes: usize,
}

impl PageCache {
    fn get(&self, sequence: u64, page: &Page) -> Option<Arc<str>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.sequence == sequence { cached.pages.get(page).map(Arc::clone) } else { None }
    }

    fn put(&self, sequence: u64, page: Page, text: Arc<str>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.sequence != sequence || cached.bytes + text.len() > MAX_CACHE {
            *cached = RenderedPages { sequence, ..RenderedPages::default() };
        }
        cached.bytes += text.len();
        cached.pages.insert(page, text);
    }
}

/// Serves a page.
pub(super) async fn serve(service: Arc<RegistryService>, page: Page, with_body: bool) -> Result<Response, HttpError> {
    let rendered = tokio::task::spawn_blocking(move || cached(&service, page)).await;
    let text = rendered.map_err(|error| HttpError::internal(&error))?.map_err(|error| HttpError::internal(&error))?;
    let text = text.ok_or_else(HttpError::not_found)?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_LENGTH, text.len().to_string()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    let body = if with_body { Body::from(text.to_string()) } else { Body::empty() };
    Ok((headers, body).into_response())
}

/// Text of a page; `None` if the registry does not have the plugin.
fn cached(service: &RegistryService, page: Page) -> Result<Option<Arc<str>>, FolderReadError> {
    let state = service.folder.state(Some(&service.root.public()))?;
    let sequence = state.checkpoint.sequence;
    if let Some(text) = service.pages.get(sequence, &page) {
        return Ok(Some(text));
    }
    let text = match &page {
        Page::Overview => Some(overview::render(service, &state)?),
        Page::Plugin(name) => plugin::render(service, &state, name)?,
    };
    let Some(text) = text.map(Arc::<str>::from) else { return Ok(None) };
    service.pages.put(sequence, page, Arc::clone(&text));
    Ok(Some(text))
}

/// Version that a page describes: the newest one that is not yanked, otherwise the newest. `rows` begin with the newest.
fn shown_version(rows: &[IndexRow]) -> Option<&IndexRow> {
    rows.iter().find(|row| !row.yanked).or_else(|| rows.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pages_name_a_plugin() {
        assert_eq!(Page::from_path(""), Some(Page::Overview));
        let name = "acme/adder".parse().unwrap();
        assert_eq!(Page::from_path("plugins/acme/adder"), Some(Page::Plugin(name)));
        for path in ["plugins", "plugins/", "plugins/acme", "plugins/acme/../adder", "plugins/acme/a/b", "acme/adder"] {
            assert_eq!(Page::from_path(path), None, "{path}");
        }
    }

    #[test]
    fn the_cache_holds_one_state_and_is_bounded() {
        let cache = PageCache::default();
        let text = |size: usize| Arc::<str>::from("x".repeat(size));
        let plugin = Page::Plugin("acme/adder".parse().unwrap());
        cache.put(1, Page::Overview, text(10));
        cache.put(1, plugin.clone(), text(20));
        assert_eq!(cache.get(1, &Page::Overview).map(|page| page.len()), Some(10));
        assert_eq!(cache.get(2, &Page::Overview), None, "another state");
        cache.put(1, plugin.clone(), text(MAX_CACHE));
        assert_eq!(cache.get(1, &Page::Overview), None, "the cache was full");
        assert_eq!(cache.get(1, &plugin).map(|page| page.len()), Some(MAX_CACHE));
        cache.put(2, Page::Overview, text(1));
        assert_eq!(cache.get(1, &plugin), None, "an older state");
    }
}
