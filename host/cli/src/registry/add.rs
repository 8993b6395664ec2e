//! `host add` and `host remove`: plugins of a project.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write, stderr, stdin};

use gymkhana_registry::{Capability, Lock, LockEntry, without_consent};
use gymkhana_registry_client::{Project, ProjectDependency, ProjectError, ProjectLock, Unpinned, root_or_here};
use semver::{Comparator, Op, VersionReq};

use super::{RegistrySession, listed};
use crate::args::registry::AddArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_terminal;
use crate::printer::Printer;

/// A plugin that was added.
pub struct AddedPlugin {
    entry: LockEntry,
    dependency: ProjectDependency,
}

/// Runs `host add`.
pub fn run(args: &AddArgs, printer: &Printer) -> CliResult<()> {
    for AddedPlugin { entry, dependency } in add(args, printer)? {
        let ProjectDependency { versions, allow } = dependency;
        printer.result(format!("{} {} ({versions})", entry.name, entry.version));
        let allowed = if allow.is_empty() { "no capabilities".to_owned() } else { listed(allow.iter()) };
        printer.result(format!("allowed: {allowed}"));
    }
    Ok(())
}

/// Adds all plugins to the project, or none if one is rejected.
pub fn add(args: &AddArgs, printer: &Printer) -> CliResult<Vec<AddedPlugin>> {
    if args.fetch.locked {
        return Err(CliError::user("`host add` changes gymkhana.lock, which --locked forbids\nhint: remove --locked"));
    }
    let session = RegistrySession::new(args.fetch.offline)?;
    let folder = root_or_here().user_error()?;
    let _lock = ProjectLock::acquire(&folder, &|text| printer.status(text)).user_error()?;
    let mut project = Project::open_or_begin().user_error()?;
    let entries = session.wait(printer, session.client().resolve(&args.plugins, None, Unpinned::Resolve))?;
    let mut agreed = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        if entries[..place].iter().any(|other| other.name == entry.name) {
            return Err(CliError::user(format!("`{}` is named twice\nhint: remove one of them", entry.name)));
        }
        let allow = consent(entry, &project, &args.allow)?;
        session.wait(printer, session.client().component(entry))?;
        agreed.push(allow);
    }
    let mut added = Vec::with_capacity(entries.len());
    for ((entry, wanted), allow) in entries.iter().zip(&args.plugins).zip(agreed) {
        let versions = if wanted.versions == VersionReq::STAR { compatible(entry) } else { wanted.versions.clone() };
        let dependency = ProjectDependency { versions, allow };
        project.put(&entry.name, dependency.clone());
        added.push(AddedPlugin { entry: entry.clone(), dependency });
    }
    let lock = with(project.lock().user_error()?, &entries)?;
    project.write(&lock).user_error()?;
    Ok(added)
}

/// Capabilities with consent: from the project, from the command line, or given interactively.
fn consent(entry: &LockEntry, project: &Project, allowed: &[Capability]) -> CliResult<BTreeSet<Capability>> {
    let mut allow = project.plugins().get(&entry.name).map(|requirement| requirement.allow.clone()).unwrap_or_default();
    allow.extend(allowed);
    allow.retain(|capability| entry.capabilities.contains(capability));
    let open = without_consent(&entry.capabilities, &allow);
    if !open.is_empty() {
        if !agrees(entry, &listed(open.iter())) {
            return Err(ProjectError::no_consent(entry, open)).user_error();
        }
        allow.extend(open);
    }
    Ok(allow)
}

/// Asks for consent if standard input and error are a terminal.
fn agrees(entry: &LockEntry, capabilities: &str) -> bool {
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        return false;
    }
    let question = format!("`{}` {} requests {capabilities}. Allow? [y/N] ", entry.name, entry.version);
    let mut answer = String::new();
    let asked = stderr().write_all(escape_terminal(&question).as_bytes()).and_then(|()| stdin().read_line(&mut answer));
    asked.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// Versions compatible with this one by semver.
fn compatible(entry: &LockEntry) -> VersionReq {
    let version = &entry.version;
    let comparator = Comparator {
        op: Op::Caret,
        major: version.major,
        minor: Some(version.minor),
        patch: Some(version.patch),
        pre: version.pre.clone(),
    };
    VersionReq { comparators: vec![comparator] }
}

/// The lock with these entries replaced or added.
fn with(lock: Option<Lock>, entries: &[LockEntry]) -> CliResult<Lock> {
    let before = lock.map(|lock| lock.entries().to_vec()).unwrap_or_default();
    let others = before.into_iter().filter(|old| entries.iter().all(|new| new.name != old.name));
    Lock::new(others.chain(entries.iter().cloned()).collect()).user_error()
}

/// Runs `host remove`.
pub fn remove(name: &str, printer: &Printer) -> CliResult<()> {
    let (_lock, mut project) = Project::existing_for_change(&|text| printer.status(text)).user_error()?;
    let name = project.named(name).user_error()?;
    project.take(&name);
    let entries = project.lock().user_error()?.map(|lock| lock.entries().to_vec()).unwrap_or_default();
    let lock = Lock::new(entries.into_iter().filter(|entry| entry.name != name).collect()).user_error()?;
    project.write(&lock).user_error()?;
    printer.result(format!("removed {name}"));
    Ok(())
}
