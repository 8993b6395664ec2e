//! `host add`, `remove`, `update`, `lock`, `verify` and `search`: what a project uses.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::Path;

use gymkhana_registry::{Capability, LOCK_FILE, Lock, LockEntry, PluginName, Wanted, WantedName, without_consent};
use gymkhana_registry_client::Unlocked;
use semver::{Comparator, Op, VersionReq};
use serde_json::json;

use super::args::{AddArgs, FetchArgs};
use super::project::{PROJECT_FILE, Project, Wish, listed, root_or_here, wants_consent};
use super::{Asker, lock_in};
use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_terminal;
use crate::printer::Printer;

/// Uses plugins in this project: all of them, or none where one is refused.
pub fn add(args: &AddArgs, printer: &Printer) -> CliResult<()> {
    if args.fetch.locked {
        return Err(CliError::user("`host add` changes gymkhana.lock, which --locked forbids; leave it out"));
    }
    let asker = Asker::new(args.fetch.offline)?;
    let mut project = Project::open_or_begin()?;
    let entries = asker.wait(printer, asker.client.resolve(&args.plugins, None, Unlocked::Resolve))?;
    let mut agreed = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        if entries[..place].iter().any(|other| other.name == entry.name) {
            return Err(CliError::user(format!("`{}` is asked for twice; leave one of them out", entry.name)));
        }
        let allow = consent(entry, &project, &args.allow)?;
        asker.wait(printer, asker.client.component(entry))?;
        agreed.push(allow);
    }
    for ((entry, wanted), allow) in entries.iter().zip(&args.plugins).zip(agreed) {
        let versions = if wanted.versions == VersionReq::STAR { compatible(entry) } else { wanted.versions.clone() };
        printer.result(format!("{} {} ({versions})", entry.name, entry.version));
        let asks = if allow.is_empty() { "nothing".to_owned() } else { listed(allow.iter()) };
        printer.result(format!("agreed to: {asks}"));
        project.put(&entry.name, Wish { versions, allow });
    }
    let lock = with(project.lock()?, &entries)?;
    project.write(&lock)
}

/// The capabilities that a plugin may have in this project: those that were agreed to before, those of the command line,
/// and those that a person agrees to now.
fn consent(entry: &LockEntry, project: &Project, allowed: &[Capability]) -> CliResult<BTreeSet<Capability>> {
    let mut allow = project.plugins().get(&entry.name).map(|wish| wish.allow.clone()).unwrap_or_default();
    allow.extend(allowed);
    allow.retain(|capability| entry.capabilities.contains(capability));
    let open = without_consent(&entry.capabilities, &allow);
    if !open.is_empty() {
        if !agrees(entry, &listed(open.iter())) {
            return Err(wants_consent(entry, &open));
        }
        allow.extend(open);
    }
    Ok(allow)
}

/// Asks a person, if there is one.
fn agrees(entry: &LockEntry, asks: &str) -> bool {
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        return false;
    }
    let question = format!("`{}` {} asks for {asks}. Agree? [y/N] ", entry.name, entry.version);
    let mut answer = String::new();
    let asked = stderr().write_all(escape_terminal(&question).as_bytes()).and_then(|()| stdin().read_line(&mut answer));
    asked.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// Every version that semver calls compatible with this one.
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

/// A lock with these entries in the place of those of the same names.
fn with(lock: Option<Lock>, entries: &[LockEntry]) -> CliResult<Lock> {
    let before = lock.map(|lock| lock.entries().to_vec()).unwrap_or_default();
    let others = before.into_iter().filter(|old| entries.iter().all(|new| new.name != old.name));
    Lock::new(others.chain(entries.iter().cloned()).collect()).user_error()
}

/// Uses a plugin no more.
pub fn remove(name: &str, printer: &Printer) -> CliResult<()> {
    let mut project = project()?;
    let name = project.named(name)?;
    project.take(&name);
    let entries = project.lock()?.map(|lock| lock.entries().to_vec()).unwrap_or_default();
    let lock = Lock::new(entries.into_iter().filter(|entry| entry.name != name).collect()).user_error()?;
    project.write(&lock)?;
    printer.result(format!("{name} is used no more"));
    Ok(())
}

fn project() -> CliResult<Project> {
    Project::open()?.ok_or_else(|| {
        CliError::user(format!("there is no {PROJECT_FILE} here or above; begin one with `host add PLUGIN`"))
    })
}

/// Takes newer versions.
pub fn update(names: &[String], fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    if fetch.locked {
        return Err(CliError::user("`host update` changes gymkhana.lock, which --locked forbids; leave it out"));
    }
    let project = project()?;
    let names: Vec<PluginName> = names.iter().map(|name| project.named(name)).collect::<CliResult<_>>()?;
    let before = project.lock()?;
    let stays = |entry: &&LockEntry| !names.is_empty() && !names.contains(&entry.name);
    let kept: Vec<LockEntry> = before.iter().flat_map(Lock::entries).filter(stays).cloned().collect();
    let kept = Lock::new(kept).user_error()?;
    pin_all(&project, before.as_ref(), Some(&kept), fetch, printer)
}

/// Pins what the project uses.
pub fn lock(fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    let project = project()?;
    let before = project.lock()?;
    pin_all(&project, before.as_ref(), before.as_ref(), fetch, printer)
}

fn pin_all(
    project: &Project,
    before: Option<&Lock>,
    kept: Option<&Lock>,
    fetch: FetchArgs,
    printer: &Printer,
) -> CliResult<()> {
    let asker = Asker::new(fetch.offline)?;
    let unlocked = if fetch.locked { Unlocked::Refuse } else { Unlocked::Resolve };
    let pinned = asker.wait(printer, asker.client.resolve(&project.wanted(), kept, unlocked))?;
    pinned.iter().try_for_each(|entry| project.check_consent(entry))?;
    asker.wait(printer, asker.client.components(&pinned))?;
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
        printer.status(format!("{LOCK_FILE} is as it was"));
        return Ok(());
    }
    if fetch.locked {
        return Err(CliError::user(format!(
            "{LOCK_FILE} pins more than {PROJECT_FILE} uses, and --locked changes nothing; run once without --locked"
        )));
    }
    project.write_lock(&lock)
}

/// Sees that what is pinned is what was signed.
pub fn verify(dir: Option<&Path>, fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    let folder = dir.map_or_else(root_or_here, |dir| Ok(dir.to_owned()))?;
    let lock = lock_in(&folder)?;
    let lock = lock.ok_or_else(|| CliError::user(format!("there is no {LOCK_FILE} in `{}`", folder.display())))?;
    let asker = Asker::new(fetch.offline)?;
    for entry in lock.entries() {
        let signer = asker.wait(printer, asker.client.verify(entry))?;
        let signer = signer.map_or("nobody: its registry is unsigned".to_owned(), |key| key.to_string());
        printer.result(format!(
            "{} {} {:.16}… signed by {signer}",
            entry.name,
            entry.version,
            entry.digest.to_string()
        ));
    }
    Ok(())
}

/// Looks for plugins.
pub fn search(words: &[String], as_json: bool, fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    let asker = Asker::new(fetch.offline)?;
    let found = asker.wait(printer, asker.client.search(words))?;
    if as_json {
        let rows: Vec<_> =
            found.iter().map(|found| json!({ "registry": found.registry, "plugin": found.row })).collect();
        printer.json(json!(rows));
        return Ok(());
    }
    for found in &found {
        let kinds: Vec<String> = found.row.kinds.iter().map(ToString::to_string).collect();
        let (row, kinds) = (&found.row, kinds.join(", "));
        printer.result(format!("{} {} ({kinds}, {}): {}", row.name, row.version, found.registry, row.description));
    }
    if found.is_empty() {
        printer.status("nothing is found");
    }
    Ok(())
}

/// A plugin's full name and one version of it, as `host yank` is told.
pub fn version_of(text: &str) -> CliResult<(PluginName, semver::Version)> {
    let wrong = || CliError::user(format!("`{text}` names no version; write for instance `acme/adder@1.2.3`"));
    let (name, version) = text.split_once('@').ok_or_else(wrong)?;
    let wanted: Wanted = name.parse().user_error()?;
    let WantedName::Full(name) = wanted.name else { return Err(wrong()) };
    Ok((name, version.parse().map_err(|_| wrong())?))
}
