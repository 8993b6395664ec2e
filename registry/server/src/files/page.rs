//! The page at `/`: the registry's plugins as HTML without scripts, for a browser.
//!
//! Names and texts come from publishers. They are escaped, and the content security policy forbids everything else that a
//! page could load or run.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use gymkhana_registry::{AcceptedCheckpoint, FolderReadError, IndexRow};

use crate::http_error::HttpError;
use crate::service::RegistryService;

/// Maximum number of plugins on the page: each costs a read of its index file.
const MAX_PLUGINS: usize = 1000;
/// Maximum number of versions shown for a plugin.
const MAX_VERSIONS: usize = 20;
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the page.
pub(super) async fn serve(service: Arc<RegistryService>, with_body: bool) -> Result<Response, HttpError> {
    let rendered = tokio::task::spawn_blocking(move || cached(&service)).await;
    let page = rendered.map_err(|error| HttpError::internal(&error))?.map_err(|error| HttpError::internal(&error))?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_LENGTH, page.len().to_string()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    let body = if with_body { Body::from(page.to_string()) } else { Body::empty() };
    Ok((headers, body).into_response())
}

fn cached(service: &RegistryService) -> Result<Arc<str>, FolderReadError> {
    let state = service.folder.state(Some(&service.root.public()))?;
    let sequence = state.checkpoint.sequence;
    if let Some(page) = service.page.get(sequence) {
        return Ok(page);
    }
    let page: Arc<str> = render(service, &state)?.into();
    service.page.put(sequence, Arc::clone(&page));
    Ok(page)
}

fn render(service: &RegistryService, state: &AcceptedCheckpoint) -> Result<String, FolderReadError> {
    let names = &state.checkpoint.index;
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Plugin registry</title>\n</head>\n\
         <body>\n<h1>Plugin registry</h1>\n",
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        page,
        "<p>Root key <code>{}</code>. Add a plugin with <code>host add NAME</code>.</p>",
        service.root.public()
    );
    page += "<table>\n<tr><th>Plugin</th><th>Kind</th><th>Summary</th><th>Capabilities</th><th>Versions</th></tr>\n";
    for name in names.keys().take(MAX_PLUGINS) {
        let mut rows = service.folder.rows(state, name)?;
        rows.sort_by(|one, other| other.version.cmp(&one.version));
        if let Some(row) = table_row(&rows) {
            page += &row;
        }
    }
    page += "</table>\n";
    if names.len() > MAX_PLUGINS {
        let _ = writeln!(
            page,
            "<p>{} more plugins; find them with <code>host search</code>.</p>",
            names.len() - MAX_PLUGINS
        );
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

/// Row of a plugin with these versions, newest first.
fn table_row(rows: &[IndexRow]) -> Option<String> {
    let newest = rows.iter().find(|row| !row.yanked).or_else(|| rows.first())?;
    let version = |row: &IndexRow| {
        let version = escape(&row.version.to_string());
        if row.yanked { format!("<s>{version}</s> (yanked)") } else { version }
    };
    let mut versions: Vec<String> = rows.iter().take(MAX_VERSIONS).map(version).collect();
    if rows.len() > MAX_VERSIONS {
        versions.push(format!("{} older", rows.len() - MAX_VERSIONS));
    }
    let cells = [
        escape(&newest.name.to_string()),
        escape(&joined(newest.kinds.iter())),
        escape(&newest.description),
        escape(&joined(newest.capabilities.iter())),
        versions.join(", "),
    ];
    Some(format!("<tr><td>{}</td></tr>\n", cells.join("</td><td>")))
}

fn joined(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// Escapes a text for HTML: its markup characters, control characters, and marks that change the reading direction.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                escaped.extend(character.escape_default());
            }
            _ if character.is_control() => escaped.extend(character.escape_default()),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_direction_marks_are_escaped() {
        assert_eq!(escape("<b a='1' c=\"2\">&amp;"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
        assert_eq!(escape("a\u{202e}b\nc\u{0}"), "a\\u{202e}b\\nc\\u{0}");
        assert_eq!(escape("ä 漢字"), "ä 漢字");
    }
}
