//! The plugins of a run: files, names of plugins in registries, or what the project uses.

use std::path::{Path, PathBuf};

use gymkhana_registry::{LOCK_FILE, Lock, LockEntry, Wanted, without_consent};
use gymkhana_registry_client::Unlocked;

use super::args::FetchArgs;
use super::project::{Project, root_or_here, wants_consent};
use super::{Asker, lock_in};
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use gymkhana_run::setup::plugins::{PluginFile, pin, read_file};

/// A component, and how messages call it.
type Read = (String, Vec<u8>);

/// One plugin that was asked for.
#[derive(Debug)]
enum Origin {
    /// A file.
    File(PathBuf),
    /// A name and versions.
    Name(Wanted),
}

impl Origin {
    /// A text that is a name, such as `calculator@^1`; else a file. No file can take a name's place by lying there: what
    /// ends in `.wasm` or begins with `.` or `/` is one.
    fn of(given: &Path) -> Self {
        let wanted = given.to_str().and_then(|text| text.parse().ok());
        wanted.map_or_else(|| Self::File(given.to_owned()), Self::Name)
    }
}

/// Reads and fetches a run's plugins and pins them. A run that goes on has a lock of its own, `began_with`, and changes
/// no other.
pub fn gather(
    given: &[PathBuf],
    fetch: FetchArgs,
    began_with: Option<&Path>,
    printer: &Printer,
) -> CliResult<(Vec<PluginFile>, Lock)> {
    let project = Project::open()?;
    let (mut read, mut wanted) = sorted(given, printer)?;
    if given.is_empty() {
        let project = project.as_ref().filter(|project| !project.plugins().is_empty());
        let project = project.ok_or_else(|| {
            CliError::user("no plugins are named; give --plugins, or use some in a project with `host add`")
        })?;
        wanted = project.wanted();
    }
    if !wanted.is_empty() {
        let resumed = began_with.map(lock_in).transpose()?.flatten();
        read.extend(named(&wanted, fetch, project.as_ref(), resumed, printer)?);
    }
    pin(read)
}

/// The same for a command that only looks at recorded episodes: it takes the newest versions that fit, and neither
/// reads nor changes a lock.
pub fn look_up(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
    let (mut read, wanted) = sorted(given, printer)?;
    if !wanted.is_empty() {
        let asker = Asker::new(false)?;
        let pinned = asker.wait(printer, asker.client.resolve(&wanted, None, Unlocked::Resolve))?;
        let components = asker.wait(printer, asker.client.components(&pinned))?;
        read.extend(pinned.iter().map(origin).zip(components));
    }
    pin(read)
}

/// The files, read, and the names.
fn sorted(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<Read>, Vec<Wanted>)> {
    let (mut read, mut wanted) = (Vec::new(), Vec::new());
    for given in given {
        match Origin::of(given) {
            Origin::File(path) => read.push(read_file(&path)?),
            Origin::Name(name) => {
                if given.exists() {
                    let path = given.display();
                    printer
                        .status(format!("`{path}` is taken for a plugin's name; for what lies here write `./{path}`"));
                }
                wanted.push(name);
            }
        }
    }
    Ok((read, wanted))
}

/// How messages call what came from a registry.
fn origin(entry: &LockEntry) -> String {
    format!("{} {}", entry.name, entry.version)
}

/// Resolves, fetches and locks.
fn named(
    wanted: &[Wanted],
    fetch: FetchArgs,
    project: Option<&Project>,
    resumed: Option<Lock>,
    printer: &Printer,
) -> CliResult<Vec<Read>> {
    let asker = Asker::new(fetch.offline)?;
    let folder = root_or_here()?;
    let goes_on = resumed.is_some();
    let lock = if goes_on { resumed } else { lock_in(&folder)? };
    let unlocked = if fetch.locked || goes_on { Unlocked::Refuse } else { Unlocked::Resolve };
    let pinned = asker.wait(printer, asker.client.resolve(wanted, lock.as_ref(), unlocked))?;
    for entry in &pinned {
        agreed(entry, project, lock.as_ref())?;
    }
    let components = asker.wait(printer, asker.client.components(&pinned))?;
    if !goes_on {
        // A project's lock holds what the project asks for: what is tried once beside it pins nothing there.
        let asked_for = |entry: &&LockEntry| {
            let wish = |project: &Project| project.plugins().get(&entry.name).map(|wish| wish.versions.clone());
            project.is_none_or(|project| wish(project).is_some_and(|versions| versions.matches(&entry.version)))
        };
        let kept: Vec<LockEntry> = pinned.iter().filter(asked_for).cloned().collect();
        keep(&folder, lock.as_ref(), &kept, printer)?;
    }
    Ok(pinned.iter().map(origin).zip(components).collect())
}

/// A project says what was agreed to; elsewhere the version that was locked before does. What is used for the first
/// time outside a project gets nothing that the run file does not grant.
fn agreed(entry: &LockEntry, project: Option<&Project>, lock: Option<&Lock>) -> CliResult<()> {
    if let Some(project) = project.filter(|project| project.plugins().contains_key(&entry.name)) {
        return project.check_consent(entry);
    }
    let Some(before) = lock.and_then(|lock| lock.get(&entry.name)) else { return Ok(()) };
    let open = without_consent(&entry.capabilities, &before.capabilities);
    if open.is_empty() { Ok(()) } else { Err(wants_consent(entry, &open)) }
}

/// Writes down what is used now, beside what else was locked there.
fn keep(folder: &Path, lock: Option<&Lock>, pinned: &[LockEntry], printer: &Printer) -> CliResult<()> {
    let before = lock.map(Lock::entries).unwrap_or_default();
    let is_new = |entry: &&LockEntry| !before.contains(entry);
    for entry in pinned.iter().filter(is_new) {
        printer.status(format!("{} {} is locked in {LOCK_FILE}", entry.name, entry.version));
    }
    if pinned.iter().all(|entry| before.contains(entry)) {
        return Ok(());
    }
    let others = before.iter().filter(|old| pinned.iter().all(|new| new.name != old.name)).cloned();
    let lock = Lock::new(others.chain(pinned.iter().cloned()).collect()).user_error()?;
    lock.write(&folder.join(LOCK_FILE)).user_error()
}
