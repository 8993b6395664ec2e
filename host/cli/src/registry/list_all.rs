//! `host list --all`: the plugins of all registries, and where each is.

use std::fmt;

use gymkhana_registry::{ContentFile, Kind, PluginName, RequirementName};
use gymkhana_registry_client::{Project, SearchHit};
use semver::Version;
use serde::Serialize;

use super::RegistrySession;
use crate::args::registry::ListArgs;
use crate::error::{Classify, CliResult};
use crate::escape::escape_line;
use crate::printer::Printer;

/// Where a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Place {
    /// The project requires it.
    Project,
    /// Its component is on this machine.
    Here,
    /// Its registry has it.
    Registry,
}

/// A plugin that can be used.
#[derive(Debug, Serialize)]
struct AvailablePlugin {
    name: PluginName,
    version: Version,
    kinds: Vec<Kind>,
    registry: String,
    place: Place,
    description: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::Here => "here",
            Self::Registry => "registry",
        })
    }
}

/// Prints the plugins.
pub fn list_all(args: &ListArgs, printer: &Printer) -> CliResult<()> {
    let session = RegistrySession::new(args.offline)?;
    let project = Project::open().user_error()?;
    let found = session.wait(printer, session.client().search(&[]))?;
    let mut plugins = Vec::with_capacity(found.len());
    for hit in found {
        let place = match &project {
            Some(project) if project.plugins().contains_key(&hit.row.name) => Place::Project,
            _ if hit.is_local || is_downloaded(&hit, &session, printer)? => Place::Here,
            _ => Place::Registry,
        };
        let SearchHit { registry, row, .. } = hit;
        let (name, version, description) = (row.name, row.version, row.description);
        plugins.push(AvailablePlugin {
            name,
            version,
            kinds: row.kinds.into_iter().collect(),
            registry,
            place,
            description,
        });
    }
    if args.json {
        printer.json(serde_json::json!(plugins));
        return Ok(());
    }
    print(&plugins, printer);
    Ok(())
}

/// Whether the newest version is in the cache.
fn is_downloaded(hit: &SearchHit, session: &RegistrySession, printer: &Printer) -> CliResult<bool> {
    let versions = session.wait(printer, session.client().versions(&RequirementName::Full(hit.row.name.clone())))?;
    let newest = versions.versions.iter().find(|version| version.row.version == hit.row.version);
    Ok(newest.is_some_and(|newest| session.client().cache().contains(&ContentFile::Component(newest.row.digest))))
}

fn print(plugins: &[AvailablePlugin], printer: &Printer) {
    if plugins.is_empty() {
        printer.status("the registries have no plugins");
        return;
    }
    let line = |cells: [&str; 5]| {
        let [name, version, kinds, place, description] = cells;
        format!("{name:<30} {version:<8} {kinds:<12} {place:<9} {description}").trim_end().to_owned()
    };
    printer.result(line(["plugin", "version", "kind", "place", "purpose"]));
    for AvailablePlugin { name, version, kinds, place, description, .. } in plugins {
        let kinds = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (version, place) = (version.to_string(), place.to_string());
        printer.result(line([&name.to_string(), &version, &kinds, &place, &escape_line(description)]));
    }
    if plugins.iter().any(|plugin| plugin.place != Place::Project) {
        printer.status("next: host add NAME, to pin one in a project; host info NAME describes it");
    }
}
