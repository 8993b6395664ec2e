//! `host plugin inspect`: prints a plugin's manifest, structure and self-description.

use std::path::Path;

use gymkhana_registry::{Capability, ErrorChain, read_manifest, read_plugin_file};
use gymkhana_sandbox::{Inspection, SelfDescription};

use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_line;
use crate::plugin::args::InspectArgs;
use crate::plugin::build;
use crate::plugin::describe::{self, Rows};
use crate::plugin::plugin_inputs::{self, PluginInputs};
use crate::printer::Printer;
use crate::registry;

/// Runs the command. A path that exists is a file or a folder; another text without `.wasm` is a name.
pub fn inspect(args: &InspectArgs, printer: &Printer) -> CliResult<()> {
    if args.plugin.is_dir() {
        let file = build::built_component(&args.plugin)?;
        return inspect_file(&file, args.json, printer);
    }
    match registry::name_of(&args.plugin) {
        Some(name) if !args.plugin.exists() => registry::info(&name, args.offline, args.json, printer),
        _ => inspect_file(&args.plugin, args.json, printer),
    }
}

fn inspect_file(file: &Path, as_json: bool, printer: &Printer) -> CliResult<()> {
    let bytes = read_plugin_file(file).user_error()?;
    let page = PluginPage::of(&format!("plugin file `{}`", file.display()), bytes, printer)?;
    if as_json {
        printer.json(format!("{:#}", page.json));
    } else {
        print_rows(&page.rows, printer);
    }
    Ok(())
}

/// Prints rows; the lines of a row are aligned.
pub fn print_rows(rows: &Rows, printer: &Printer) {
    for (name, lines) in rows {
        printer.result(format!("{name:>10}  {}", lines.join("\n            ")));
    }
}

/// Everything known about a component, for people and as JSON.
pub struct PluginPage {
    /// Rows for people.
    pub rows: Rows,
    /// The same as a JSON object.
    pub json: serde_json::Value,
}

impl PluginPage {
    /// Reads the manifest, then opens the component in the sandbox. A component that cannot be opened still has a page.
    ///
    /// # Errors
    /// If the bytes, called `origin` in messages, are not a plugin.
    pub fn of(origin: &str, bytes: Vec<u8>, printer: &Printer) -> CliResult<Self> {
        let wrong =
            |cause: &dyn std::error::Error| CliError::user(format!("{origin} cannot be used: {}", ErrorChain(cause)));
        let manifest = read_manifest(&bytes).map_err(|error| wrong(&error))?;
        let inputs = PluginInputs { origin: manifest.name.to_string(), bytes, manifest };
        let described = describe(&inputs, printer).map_err(|error| one_line(&error));
        let inspection = Inspection::new(&inputs.bytes, described).map_err(|error| wrong(&error))?;
        let json = serde_json::to_value(&inspection).internal()?;
        let Inspection { manifest, digest, bytes: size, exports, imports, description, description_error, .. } =
            inspection;
        let escaped = |names: &[String]| names.iter().map(|name| escape_line(name)).collect();
        let wanted = |capability: &Capability| match manifest.optional.contains(capability) {
            true => format!("{capability} (if granted)"),
            false => capability.to_string(),
        };
        // The texts of the manifest are the author's: a line end in them would forge the rows below.
        let mut rows: Rows = vec![
            ("plugin", vec![format!("{} {}", manifest.name, manifest.version)]),
            ("about", vec![escape_line(&manifest.description)]),
            ("kinds", vec![list(manifest.kinds.iter().map(ToString::to_string))]),
            ("wants", vec![list(manifest.capabilities.iter().map(wanted))]),
            ("licence", vec![escape_line(&manifest.license)]),
            (
                "contract",
                vec![manifest.check_contract().map_or_else(|error| error.to_string(), |()| "this host's".to_owned())],
            ),
            ("digest", vec![digest.to_string()]),
            ("size", vec![format!("{size} bytes")]),
        ];
        rows.extend(description.as_ref().map(describe::rows).unwrap_or_default());
        rows.extend(description_error.map(|why| ("options", vec![format!("not known: {}", escape_line(&why))])));
        rows.push(("exports", escaped(&exports)));
        rows.push(("imports", escaped(&imports)));
        Ok(Self { rows, json })
    }
}

/// Opens a plugin in the sandbox, with all capabilities that it requests but without anything behind them, and asks it
/// about itself.
fn describe(inputs: &PluginInputs, printer: &Printer) -> CliResult<SelfDescription> {
    let sandbox = plugin_inputs::sandbox(&plugin_inputs::author_config(), printer)?;
    let plugin = inputs.load(&sandbox)?;
    plugin_inputs::runtime()?.block_on(SelfDescription::of(&plugin)).user_error()
}

/// An error and its causes in one line.
fn one_line(error: &CliError) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A list in one line, or `none`.
pub fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
