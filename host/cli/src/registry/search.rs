//! `host search`: plugins of all registries.

use serde_json::json;

use super::RegistrySession;
use crate::args::registry::FetchArgs;
use crate::error::CliResult;
use crate::escape::escape_line;
use crate::printer::Printer;

/// Runs `host search`.
pub fn search(words: &[String], as_json: bool, fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    let session = RegistrySession::new(fetch.offline)?;
    let found = session.wait(printer, session.client().search(words))?;
    if as_json {
        let rows: Vec<_> =
            found.iter().map(|found| json!({ "registry": found.registry, "plugin": found.row })).collect();
        printer.json(json!(rows));
        return Ok(());
    }
    for found in &found {
        let kinds: Vec<String> = found.row.kinds.iter().map(ToString::to_string).collect();
        let (row, kinds) = (&found.row, kinds.join(", "));
        let description = escape_line(&row.description);
        printer.result(format!("{} {} ({kinds}, {}): {description}", row.name, row.version, found.registry));
    }
    if found.is_empty() {
        printer.status("no plugin matches");
    }
    Ok(())
}
