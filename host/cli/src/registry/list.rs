//! `host list` and `host outdated`: plugins of the project with their required, locked and newest versions.

use std::collections::BTreeSet;

use gymkhana_registry::{Capability, PluginName, RequirementName};
use gymkhana_registry_client::Project;
use semver::{Version, VersionReq};
use serde::Serialize;

use super::RegistrySession;
use super::list_all::list_all;
use crate::args::registry::{ListArgs, PluginListArgs};
use crate::error::{Classify, CliResult};
use crate::plugin::list as joined;
use crate::printer::Printer;

/// A plugin of the project.
#[derive(Debug, Serialize)]
struct DependencyRow {
    name: PluginName,
    required: VersionReq,
    locked: Option<Version>,
    /// Whether the locked version is yanked.
    yanked: bool,
    /// Newest version that the requirement accepts; `None` if there is none, or its registry cannot be read.
    newest_matching: Option<Version>,
    /// Newest version.
    newest: Option<Version>,
    /// Capabilities with consent.
    allow: BTreeSet<Capability>,
}

/// Runs `host list`.
pub fn list(args: &PluginListArgs, printer: &Printer) -> CliResult<()> {
    if args.all {
        return list_all(&args.list, printer);
    }
    print(&rows(&args.list, printer)?, args.list.json, "the project has no plugins", printer);
    Ok(())
}

/// Runs `host outdated`.
pub fn outdated(args: &ListArgs, printer: &Printer) -> CliResult<()> {
    let mut rows = rows(args, printer)?;
    rows.retain(|row| row.newest > row.locked);
    print(&rows, args.json, "all plugins have their newest version", printer);
    Ok(())
}

/// Plugins of the project. A registry that cannot be read leaves its versions unknown, with a status line.
fn rows(args: &ListArgs, printer: &Printer) -> CliResult<Vec<DependencyRow>> {
    let (project, session) = (Project::existing().user_error()?, RegistrySession::new(args.offline)?);
    let lock = project.lock().user_error()?;
    let mut rows = Vec::new();
    for (name, dependency) in project.plugins() {
        let found = session.wait(printer, session.client().versions(&RequirementName::Full(name.clone())));
        let found = found.inspect_err(|error| printer.status(format!("{name}: {error}"))).ok();
        let version = |row: &gymkhana_registry::IndexRow| row.version.clone();
        let locked = lock.as_ref().and_then(|lock| lock.get(name)).map(|entry| entry.version.clone());
        let all = found.as_ref().map_or(&[][..], |found| &found.versions);
        let is_locked = |row: &gymkhana_registry::IndexRow| locked.as_ref() == Some(&row.version);
        rows.push(DependencyRow {
            name: name.clone(),
            required: dependency.versions.clone(),
            yanked: all.iter().any(|version| version.row.yanked && is_locked(&version.row)),
            locked,
            newest_matching: found.as_ref().and_then(|found| found.newest_matching(&dependency.versions)).map(version),
            newest: found.as_ref().and_then(|found| found.newest()).map(version),
            allow: dependency.allow.clone(),
        });
    }
    Ok(rows)
}

fn print(rows: &[DependencyRow], as_json: bool, empty: &str, printer: &Printer) {
    if as_json {
        printer.json(serde_json::json!(rows));
        return;
    }
    if rows.is_empty() {
        printer.status(empty);
        return;
    }
    let line = |cells: [&str; 6]| {
        let [name, required, locked, matching, newest, allow] = cells;
        format!("{name:<30} {required:<10} {locked:<18} {matching:<10} {newest:<10} {allow}")
    };
    printer.result(line(["plugin", "required", "locked", "matching", "newest", "allowed"]));
    for row in rows {
        let shown = |version: &Option<Version>| version.as_ref().map_or("-".to_owned(), ToString::to_string);
        let mark = if row.yanked { " (yanked)" } else { "" };
        let locked = format!("{}{mark}", shown(&row.locked));
        let (matching, newest) = (shown(&row.newest_matching), shown(&row.newest));
        let allow = joined(row.allow.iter().map(ToString::to_string));
        let cells = [&row.name.to_string(), &row.required.to_string(), &locked, &matching, &newest, &allow];
        printer.result(line(cells.map(String::as_str)));
    }
}
