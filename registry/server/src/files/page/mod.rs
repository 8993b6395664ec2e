//! Pages for a browser, as HTML without scripts: the registry's plugins at `/`, and one plugin at
//! `/plugins/NAMESPACE/NAME`.
//!
//! Names and texts come from publishers. They are escaped, and the content security policy forbids everything else that a
//! page could load or run.

mod html;
mod overview;
mod plugin;

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use gymkhana_registry::{FolderReadError, IndexRow};

use crate::files::page_cache::RegistryPage;
use crate::http_error::HttpError;
use crate::service::RegistryService;

const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves a page.
pub(super) async fn serve(
    service: Arc<RegistryService>,
    page: RegistryPage,
    with_body: bool,
) -> Result<Response, HttpError> {
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
fn cached(service: &RegistryService, page: RegistryPage) -> Result<Option<Arc<str>>, FolderReadError> {
    let state = service.folder.state(Some(&service.root.public()))?;
    let sequence = state.checkpoint.sequence;
    if let Some(text) = service.pages.get(sequence, &page) {
        return Ok(Some(text));
    }
    let text = match &page {
        RegistryPage::Overview => Some(overview::render(service, &state)?),
        RegistryPage::Plugin(name) => plugin::render(service, &state, name)?,
    };
    let Some(text) = text.map(Arc::<str>::from) else { return Ok(None) };
    service.pages.put(sequence, page, Arc::clone(&text));
    Ok(Some(text))
}

/// Version that a page describes: the newest one that is not yanked, otherwise the newest. `rows` begin with the newest.
fn shown_version(rows: &[IndexRow]) -> Option<&IndexRow> {
    rows.iter().find(|row| !row.yanked).or_else(|| rows.first())
}
