//! `host plugin inspect`: prints a plugin's manifest without running it.

use std::path::Path;

use gymkhana_registry::{Capability, Digest, ErrorChain, exports, imports, read_manifest, read_plugin_file};
use serde_json::json;

use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_line;
use crate::printer::Printer;

/// Runs the command.
pub fn inspect(file: &Path, as_json: bool, printer: &Printer) -> CliResult<()> {
    let bytes = read_plugin_file(file).user_error()?;
    let wrong = |cause: &dyn std::error::Error| {
        CliError::user(format!("plugin file `{}` cannot be used: {}", file.display(), ErrorChain(cause)))
    };
    let manifest = read_manifest(&bytes).map_err(|error| wrong(&error))?;
    let mut exported = exports(&bytes).map_err(|error| wrong(&error))?;
    let mut imported = imports(&bytes).map_err(|error| wrong(&error))?;
    // The order is an artefact of the build.
    exported.sort();
    imported.sort();
    let digest = Digest::of(&bytes);
    let contract = manifest.check_contract();
    if as_json {
        let text = json!({
            "manifest": manifest,
            "digest": digest,
            "bytes": bytes.len(),
            "exports": exported,
            "imports": imported,
            "runs_here": contract.is_ok(),
        });
        printer.json(format!("{text:#}"));
        return Ok(());
    }
    let list = |items: &mut dyn Iterator<Item = String>| {
        let items: Vec<String> = items.collect();
        if items.is_empty() { "none".to_owned() } else { items.join(", ") }
    };
    let wanted = |capability: &Capability| match manifest.optional.contains(capability) {
        true => format!("{capability} (if granted)"),
        false => capability.to_string(),
    };
    let lines = |names: &[String]| names.iter().map(|name| escape_line(name)).collect::<Vec<_>>().join("\n           ");
    // The texts of the manifest are the author's: a line end in them would forge the rows below.
    let rows = [
        ("plugin", format!("{} {}", manifest.name, manifest.version)),
        ("about", escape_line(&manifest.description)),
        ("kinds", list(&mut manifest.kinds.iter().map(ToString::to_string))),
        ("wants", list(&mut manifest.capabilities.iter().map(wanted))),
        ("licence", escape_line(&manifest.license)),
        ("contract", contract.map_or_else(|error| error.to_string(), |()| "this host's".to_owned())),
        ("digest", digest.to_string()),
        ("size", format!("{} bytes", bytes.len())),
        ("exports", lines(&exported)),
        ("imports", lines(&imported)),
    ];
    for (name, value) in rows {
        printer.result(format!("{name:>9}  {value}"));
    }
    Ok(())
}
