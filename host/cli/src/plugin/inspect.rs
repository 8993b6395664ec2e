//! `host plugin inspect`: prints a plugin's manifest, structure and self-description.

use std::path::Path;

use gymkhana_conformance::SuiteSettings;
use gymkhana_registry::{
    Answered, Capability, Digest, ErrorChain, Kind, Manifest, Release, SelfDescription, read_manifest, read_plugin_file,
};
use gymkhana_sandbox::{CompilerEffort, Inspection, SandboxConfig};

use crate::args::plugin::{GivenInputs, InspectArgs};
use crate::args::registry::InfoArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_line;
use crate::plugin::build;
use crate::plugin::companions::Companions;
use crate::plugin::describe::{self, DescriptionRows};
use crate::plugin::facts;
use crate::plugin::plugin_inputs::{self, PluginInputs};
use crate::plugin::test::suite_config;
use crate::printer::Printer;
use crate::registry;
use crate::units::counted;

/// Runs the command. A path that exists is a file or a folder; another text without `.wasm` is a name.
pub fn inspect(args: &InspectArgs, printer: &Printer) -> CliResult<()> {
    if args.plugin.is_dir() {
        let file = build::built_component(&args.plugin)?;
        return inspect_file(&file, args, printer);
    }
    match registry::name_of(&args.plugin) {
        Some(plugin) if !args.plugin.exists() => {
            let wanted = InfoArgs { plugin, json: args.json, offline: args.offline };
            registry::info(&wanted, &args.given, printer)
        }
        _ => inspect_file(&args.plugin, args, printer),
    }
}

fn inspect_file(file: &Path, args: &InspectArgs, printer: &Printer) -> CliResult<()> {
    let bytes = read_plugin_file(file).user_error()?;
    let origin = format!("plugin file `{}`", file.display());
    let page = PluginPage::of(&origin, bytes, build::effort(&args.plugin), &args.given, printer)?;
    if args.json {
        printer.json(format!("{:#}", page.json));
    } else {
        print_rows(&page.rows, printer);
    }
    Ok(())
}

/// Prints rows; the lines of a row are aligned.
pub fn print_rows(rows: &DescriptionRows, printer: &Printer) {
    for (name, lines) in rows {
        printer.result(format!("{name:>10}  {}", lines.join("\n            ")));
    }
}

/// Everything known about a plugin, for people and as JSON.
pub struct PluginPage {
    /// Rows for people.
    pub rows: DescriptionRows,
    /// The same as a JSON object.
    pub json: serde_json::Value,
}

impl PluginPage {
    /// Reads the manifest, then opens the component in the sandbox. A component that cannot be opened still has a page.
    ///
    /// # Errors
    /// If the bytes, called `origin` in messages, are not a plugin, or the inputs are wrong.
    pub fn of(
        origin: &str,
        bytes: Vec<u8>,
        effort: CompilerEffort,
        given: &GivenInputs,
        printer: &Printer,
    ) -> CliResult<Self> {
        let wrong =
            |cause: &dyn std::error::Error| CliError::user(format!("{origin} cannot be used: {}", ErrorChain(cause)));
        let manifest = read_manifest(&bytes).map_err(|error| wrong(&error))?;
        let inputs = PluginInputs { origin: manifest.name.to_string(), bytes, manifest };
        let described = match described(&inputs, &plugin_inputs::author_config(effort), given, printer) {
            // A page without what was asked for would hide the mistake.
            Err(error) if !given.is_empty() => return Err(error),
            described => described.map_err(|error| one_line(&error)),
        };
        let inspection = Inspection::new(&inputs.bytes, described).map_err(|error| wrong(&error))?;
        let json = serde_json::to_value(&inspection).internal()?;
        let Inspection { manifest, digest, bytes: size, exports, imports, description, description_error, .. } =
            inspection;
        let mut rows = release_rows(&manifest, digest, size as u64);
        let options = if given.is_empty() { "default options" } else { "these options" };
        rows.extend(description.map(|description| describe::rows(&description, options)).unwrap_or_default());
        rows.extend(description_error.map(|why| ("options", vec![format!("not known: {}", escape_line(&why))])));
        rows.push(("exports", escaped(exports)));
        rows.push(("imports", import_lines(imports)));
        Ok(Self { rows, json })
    }

    /// Page of a release that describes the plugin, as its publisher signed it: without the imports of the component.
    ///
    /// # Errors
    /// If serialization fails, which does not happen for valid releases.
    pub fn of_release(release: Release) -> CliResult<Self> {
        let Release { digest, size, manifest, exports, description, .. } = release;
        let json = serde_json::json!({
            "manifest": serde_json::to_value(&manifest).internal()?,
            "digest": digest,
            "bytes": size,
            "exports": exports,
            "runs_here": manifest.check_contract().is_ok(),
            "description": serde_json::to_value(&description).internal()?,
        });
        let mut rows = release_rows(&manifest, digest, size);
        rows.extend(description.map(|description| describe::rows(&description, "default options")).unwrap_or_default());
        rows.push(("exports", escaped(exports)));
        Ok(Self { rows, json })
    }
}

/// Rows of what the manifest and the file show.
fn release_rows(manifest: &Manifest, digest: Digest, size: u64) -> DescriptionRows {
    let wanted = |capability: &Capability| match manifest.optional.contains(capability) {
        true => format!("{capability} (if granted)"),
        false => capability.to_string(),
    };
    // The texts of the manifest are the author's: a line end in them would forge the rows below.
    vec![
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
    ]
}

/// Imported interfaces; those of WASI, which the toolchain adds, in one line.
fn import_lines(imports: Vec<String>) -> Vec<String> {
    let (wasi, own): (Vec<String>, Vec<String>) = imports.into_iter().partition(|name| name.starts_with("wasi:"));
    let mut lines = escaped(own);
    if !wasi.is_empty() {
        lines.push(format!("{} of WASI", counted(wasi.len() as u64, "interface")));
    }
    lines
}

fn escaped(names: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().map(|name| escape_line(&name)).collect()
}

/// Answers of a component about itself under default options, in the sandbox in which the conformance suite has compiled it.
///
/// # Errors
/// If the bytes are not a plugin, or it cannot be opened.
pub fn describe_component(bytes: Vec<u8>, printer: &Printer) -> CliResult<SelfDescription> {
    let manifest = read_manifest(&bytes).user_error()?;
    let inputs = PluginInputs { origin: manifest.name.to_string(), bytes, manifest };
    let config = suite_config(&SuiteSettings::default(), CompilerEffort::Optimised);
    described(&inputs, &config, &GivenInputs::default(), printer)
}

/// Opens a plugin in the sandbox, with all capabilities that it requests but without anything behind them except the given
/// assets, and asks it about itself.
fn described(
    inputs: &PluginInputs,
    config: &SandboxConfig,
    given: &GivenInputs,
    printer: &Printer,
) -> CliResult<SelfDescription> {
    let sandbox = plugin_inputs::sandbox(config, printer)?;
    let plugin = inputs.load(&sandbox)?.with_assets(plugin_inputs::assets(&given.asset)?);
    let options = plugin_inputs::options(plugin.name(), &given.option)?;
    let is_environment = inputs.manifest.kinds.contains(&Kind::Environment);
    if !is_environment && !given.with.is_empty() {
        let message = format!("--with needs an environment, but `{}` is not one", inputs.manifest.name);
        return Err(CliError::user(message).with_hint("inspect an environment --with its tools"));
    }
    let beside = Companions::find(&given.with, printer)?;
    plugin_inputs::runtime()?.block_on(async {
        let companions = Companions::load(&beside, &sandbox, printer).await?;
        let mut all = gymkhana_sandbox::describe(&plugin, &options).await.user_error()?;
        if let Some(environment) = all.environment.as_mut().filter(|_| !given.with.is_empty()) {
            environment.facts = Answered::from(facts::with_tools(&plugin, options, &companions.tools).await);
        }
        Ok(all)
    })
}

/// An error and its causes in one line.
pub fn one_line(error: &CliError) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A list in one line, or `none`.
pub fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
