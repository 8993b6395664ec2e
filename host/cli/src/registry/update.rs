//! `host update` and `host lock`: pins of a project.

use gymkhana_registry::{LOCK_FILE, Lock, LockEntry, PluginName, RequirementName};
use gymkhana_registry_client::{PROJECT_FILE, Project, ProjectError, Unpinned};

use super::RegistrySession;
use crate::args::registry::FetchArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;

/// Runs `host update`.
pub fn update(names: &[String], fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    if fetch.locked {
        return Err(CliError::user(
            "`host update` changes gymkhana.lock, which --locked forbids\nhint: remove \
                                   --locked",
        ));
    }
    let (_lock, project) = Project::existing_for_change(&|text| printer.status(text)).user_error()?;
    let names: Vec<PluginName> =
        names.iter().map(|name| project.named(name)).collect::<Result<_, ProjectError>>().user_error()?;
    let before = project.lock().user_error()?;
    let stays = |entry: &&LockEntry| !names.is_empty() && !names.contains(&entry.name);
    let kept: Vec<LockEntry> = before.iter().flat_map(Lock::entries).filter(stays).cloned().collect();
    let kept = Lock::new(kept).user_error()?;
    pin_all(&project, before.as_ref(), Some(&kept), fetch, printer)?;
    print_held_back(&project, fetch, printer)
}

/// Names newer versions that a requirement of the project excludes.
fn print_held_back(project: &Project, fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    let session = RegistrySession::new(fetch.offline)?;
    for entry in project.lock().user_error()?.iter().flat_map(Lock::entries) {
        let Some(required) = project.plugins().get(&entry.name) else { continue };
        let name = RequirementName::Full(entry.name.clone());
        let found = session.wait(printer, session.client().versions(&name))?;
        if let Some(newest) = found.newest().filter(|row| row.version > entry.version)
            && !required.versions.matches(&newest.version)
        {
            let (name, newest, versions) = (&entry.name, &newest.version, &required.versions);
            printer.status(format!(
                "{name} stays at {}: `{versions}` excludes {newest}; `host add {name}@^{newest}` requires it",
                entry.version
            ));
        }
    }
    Ok(())
}

/// Runs `host lock`.
pub fn lock(fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    // `host lock --locked` only checks and works in a folder that cannot be written.
    let (_lock, project) = if fetch.locked {
        (None, Project::existing().user_error()?)
    } else {
        let (lock, project) = Project::existing_for_change(&|text| printer.status(text)).user_error()?;
        (Some(lock), project)
    };
    let before = project.lock().user_error()?;
    pin_all(&project, before.as_ref(), before.as_ref(), fetch, printer)
}

/// Resolves the project's requirements, keeps the versions in `kept`, and writes the lock.
fn pin_all(
    project: &Project,
    before: Option<&Lock>,
    kept: Option<&Lock>,
    fetch: FetchArgs,
    printer: &Printer,
) -> CliResult<()> {
    let session = RegistrySession::new(fetch.offline)?;
    let unlocked = if fetch.locked { Unpinned::Reject } else { Unpinned::Resolve };
    let pinned = session.wait(printer, session.client().resolve(&project.wanted(), kept, unlocked))?;
    pinned.iter().try_for_each(|entry| project.check_consent(entry)).user_error()?;
    session.wait(printer, session.client().components(&pinned))?;
    let old = |name: &PluginName| before.and_then(|lock| lock.get(name));
    for entry in &pinned {
        match old(&entry.name) {
            Some(old) if old.version == entry.version => {}
            Some(old) => printer.result(format!("{} {} -> {}", entry.name, old.version, entry.version)),
            None => printer.result(format!("{} {}", entry.name, entry.version)),
        }
    }
    let lock = Lock::new(pinned).user_error()?;
    if before == Some(&lock) {
        printer.status(format!("{LOCK_FILE} is unchanged"));
        return Ok(());
    }
    if fetch.locked {
        return Err(CliError::user(format!(
            "{LOCK_FILE} pins more than {PROJECT_FILE} requires, but --locked forbids changes\nhint: run once without \
             --locked"
        )));
    }
    project.write_lock(&lock).user_error()
}
