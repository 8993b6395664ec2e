//! `host info`: a released plugin, its versions, and what it says about itself.

use gymkhana_registry::Requirement;
use gymkhana_registry_client::{PluginVersion, PluginVersions};
use gymkhana_sandbox::CompilerEffort;
use serde_json::json;

use super::RegistrySession;
use crate::args::plugin::GivenInputs;
use crate::args::registry::InfoArgs;
use crate::error::{CliError, CliResult};
use crate::plugin::{PluginPage, list, print_rows};
use crate::printer::Printer;

/// Runs `host info`. A signed release that describes the plugin suffices; otherwise, and to describe it with given
/// inputs, the component is verified and cached before it is opened.
pub fn info(args: &InfoArgs, given: &GivenInputs, printer: &Printer) -> CliResult<()> {
    let wanted = &args.plugin;
    let session = RegistrySession::new(args.offline)?;
    let found = session.wait(printer, session.client().versions(&wanted.name))?;
    let row = found.best(&wanted.versions).ok_or_else(|| no_version(&found, wanted))?;
    let (_, release) = session.wait(printer, session.client().release(&row.pin()))?;
    let mut page = match release.description {
        Some(_) if given.is_empty() => PluginPage::of_release(release)?,
        _ => {
            let component = session.wait(printer, session.client().component(&row.pin()))?;
            let origin = format!("plugin `{}` {}", row.name, row.version);
            PluginPage::of(&origin, component, CompilerEffort::Optimised, given, printer)?
        }
    };
    let publisher = row.signer.map(|key| key.to_string());
    if args.json {
        page.json["release"] = json!({
            "registry": found.registry,
            "publisher": publisher,
            "yanked": row.yanked,
            "versions": found.versions.iter().map(version_json).collect::<Vec<_>>(),
        });
        printer.json(format!("{:#}", page.json));
        return Ok(());
    }
    // They follow the name.
    let release = [
        ("registry", found.registry.clone()),
        ("publisher", publisher.unwrap_or_else(|| "no key: its registry is unsigned".to_owned())),
        ("versions", list(found.versions.iter().map(version_text))),
    ];
    page.rows.splice(1..1, release.map(|(name, line)| (name, vec![line])));
    print_rows(&page.rows, printer);
    Ok(())
}

fn no_version(found: &PluginVersions, wanted: &Requirement) -> CliError {
    let versions = list(found.versions.iter().map(version_text));
    CliError::user(format!(
        "registry `{}` has no version of `{}` that matches `{}`\nhint: its versions are {versions}",
        found.registry, found.name, wanted.versions
    ))
}

fn version_json(version: &PluginVersion) -> serde_json::Value {
    let PluginVersion { row, revoked } = version;
    json!({ "version": row.version, "yanked": row.yanked, "revoked": revoked, "publisher": row.signer })
}

fn version_text(version: &PluginVersion) -> String {
    let mark = match (version.row.yanked, version.revoked) {
        (_, true) => " (key revoked)",
        (true, false) => " (yanked)",
        (false, false) => "",
    };
    format!("{}{mark}", version.row.version)
}
