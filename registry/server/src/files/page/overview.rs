//! The page at `/`: a table of the registry's plugins.

use std::fmt::Write as _;

use gymkhana_registry::{AcceptedCheckpoint, FolderReadError, IndexRow};

use super::html::{document, escape, joined};
use super::shown_version;
use crate::files::page_cache::PLUGINS;
use crate::service::RegistryService;

/// Maximum number of plugins on the page: each costs a read of its index file.
const MAX_PLUGINS: usize = 1000;
/// Maximum number of versions shown for a plugin.
const MAX_VERSIONS: usize = 20;

/// Renders the page.
pub(super) fn render(service: &RegistryService, state: &AcceptedCheckpoint) -> Result<String, FolderReadError> {
    let names = &state.checkpoint.index;
    let mut page = String::new();
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
    Ok(document("Plugin registry", &page))
}

/// Row of a plugin with these versions, newest first.
fn table_row(rows: &[IndexRow]) -> Option<String> {
    let newest = shown_version(rows)?;
    let version = |row: &IndexRow| {
        let version = escape(&row.version.to_string());
        if row.yanked { format!("<s>{version}</s> (yanked)") } else { version }
    };
    let mut versions: Vec<String> = rows.iter().take(MAX_VERSIONS).map(version).collect();
    if rows.len() > MAX_VERSIONS {
        versions.push(format!("{} older", rows.len() - MAX_VERSIONS));
    }
    let name = escape(&newest.name.to_string());
    let cells = [
        format!("<a href=\"{PLUGINS}{name}\">{name}</a>"),
        escape(&joined(newest.kinds.iter())),
        escape(&newest.description),
        escape(&joined(newest.capabilities.iter())),
        versions.join(", "),
    ];
    Some(format!("<tr><td>{}</td></tr>\n", cells.join("</td><td>")))
}
