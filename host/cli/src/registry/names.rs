//! Plugins of a run: files, names in registries, or the project's plugins.

use std::path::{Path, PathBuf};

use gymkhana_registry::{LOCK_FILE, Lock, LockEntry, Requirement, RequirementName, without_consent};
use gymkhana_registry_client::Unpinned;

use super::project::{Project, project_lock_in, root_or_here, wants_consent};
use super::project_lock::ProjectLock;
use super::{RegistrySession, lock_in};
use crate::args::registry::FetchArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use gymkhana_orchestration::plugins::{PluginFile, pin, read_file};

/// Origin and bytes of a component.
type Read = (String, Vec<u8>);

/// A plugin argument.
#[derive(Debug)]
enum Origin {
    /// A file.
    File(PathBuf),
    /// A name with a version requirement.
    Name(Requirement),
}

impl Origin {
    /// Parses a name such as `calculator@^1`; other text is a file. A file in the working directory cannot replace a
    /// name: paths end in `.wasm` or start with `.` or `/`.
    fn of(given: &Path) -> Self {
        let wanted = given.to_str().and_then(|text| text.parse().ok());
        wanted.map_or_else(|| Self::File(given.to_owned()), Self::Name)
    }
}

/// The name that a plugin argument is, unless it is a file.
pub fn name_of(given: &Path) -> Option<Requirement> {
    match Origin::of(given) {
        Origin::Name(name) => Some(name),
        Origin::File(_) => None,
    }
}

/// Reads and downloads a run's plugins and pins them. A resumed run uses the lock in `began_with` and changes no other.
pub fn gather(
    given: &[PathBuf],
    fetch: FetchArgs,
    began_with: Option<&Path>,
    printer: &Printer,
) -> CliResult<(Vec<PluginFile>, Lock)> {
    gather_with(given, GivenAs::Option, fetch, began_with, printer)
}

/// How a command takes its plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenAs {
    /// As `--plugins`.
    Option,
    /// As arguments without an option.
    Arguments,
}

/// As [`gather`], for a command that takes plugins in either way.
pub fn gather_with(
    given: &[PathBuf],
    given_as: GivenAs,
    fetch: FetchArgs,
    began_with: Option<&Path>,
    printer: &Printer,
) -> CliResult<(Vec<PluginFile>, Lock)> {
    let project = Project::open()?;
    let (mut read, mut wanted) = sorted(given, printer)?;
    if given.is_empty() {
        let project = project.as_ref().filter(|project| !project.plugins().is_empty());
        let project = project.ok_or_else(|| {
            let how = match given_as {
                GivenAs::Option => "give --plugins",
                GivenAs::Arguments => "name their files, such as `word-problems.wasm`, after the command",
            };
            CliError::user(format!("no plugins are given\nhint: {how}, or add plugins to a project with `host add`"))
        })?;
        wanted = project.wanted();
    }
    if !wanted.is_empty() {
        let resumed = began_with.map(lock_in).transpose()?.flatten();
        read.extend(named(&wanted, fetch, project.as_ref(), resumed, printer)?);
    }
    pin(read)
}

/// Reads and downloads plugins for a command on recorded episodes: takes the newest matching versions and ignores
/// locks.
pub fn look_up(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
    let (mut read, wanted) = sorted(given, printer)?;
    if !wanted.is_empty() {
        let session = RegistrySession::new(false)?;
        let pinned = session.wait(printer, session.client.resolve(&wanted, None, Unpinned::Resolve));
        let pinned = pinned.map_err(|error| or_file(error, &wanted))?;
        let components = session.wait(printer, session.client.components(&pinned))?;
        read.extend(pinned.iter().map(origin).zip(components));
    }
    pin(read)
}

/// Reads the files; returns their components and the names.
fn sorted(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<Read>, Vec<Requirement>)> {
    let (mut read, mut wanted) = (Vec::new(), Vec::new());
    for given in given {
        match Origin::of(given) {
            Origin::File(path) => read.push(read_file(&path)?),
            Origin::Name(name) => {
                if let Some(path) = file_of_name(given) {
                    let (name, path) = (given.display(), path.display());
                    printer.status(format!("treating `{name}` as a plugin name; use `./{path}` for a local file"));
                }
                wanted.push(name);
            }
        }
    }
    Ok((read, wanted))
}

/// A file beside the working directory's others that a plugin name may mean: one of this name, or its component.
fn file_of_name(given: &Path) -> Option<PathBuf> {
    let mut component = given.as_os_str().to_owned();
    component.push(".wasm");
    [given.to_owned(), PathBuf::from(component)].into_iter().find(|path| path.exists())
}

/// The error about names that could not be resolved. A component beside them may be what was meant.
fn or_file(error: CliError, wanted: &[Requirement]) -> CliError {
    let named = |wanted: &Requirement| match &wanted.name {
        RequirementName::Short(name) => file_of_name(Path::new(name)).filter(|path| path.is_file()),
        RequirementName::Full(_) => None,
    };
    match wanted.iter().find_map(named) {
        Some(path) => error.with_hint(format!("did you mean the file `./{}`?", path.display())),
        None => error,
    }
}

/// Origin of a registry's plugin in messages.
fn origin(entry: &LockEntry) -> String {
    format!("{} {}", entry.name, entry.version)
}

/// Resolves, downloads and locks plugins.
fn named(
    wanted: &[Requirement],
    fetch: FetchArgs,
    project: Option<&Project>,
    resumed: Option<Lock>,
    printer: &Printer,
) -> CliResult<Vec<Read>> {
    let session = RegistrySession::new(fetch.offline)?;
    let folder = root_or_here()?;
    let resumes = resumed.is_some();
    let lock = if resumes { resumed } else { project_lock_in(&folder)? };
    let unlocked = if fetch.locked || resumes { Unpinned::Reject } else { Unpinned::Resolve };
    let pinned = session.wait(printer, session.client.resolve(wanted, lock.as_ref(), unlocked));
    let pinned = pinned.map_err(|error| or_file(error, wanted))?;
    for entry in &pinned {
        agreed(entry, project, lock.as_ref())?;
    }
    let components = session.wait(printer, session.client.components(&pinned))?;
    if !resumes {
        // A project's lock pins only plugins that the project requires.
        let is_required = |entry: &&LockEntry| {
            let versions = |project: &Project| Some(project.plugins().get(&entry.name)?.versions.clone());
            project.is_none_or(|project| versions(project).is_some_and(|versions| versions.matches(&entry.version)))
        };
        let kept: Vec<LockEntry> = pinned.iter().filter(is_required).cloned().collect();
        add_pins(&folder, lock.as_ref(), &kept, printer)?;
    }
    Ok(pinned.iter().map(origin).zip(components).collect())
}

/// Checks consent to a plugin's capabilities: by the project, or outside a project by the locked version. Without
/// either, the plugin gets only the grants of the run file.
fn agreed(entry: &LockEntry, project: Option<&Project>, lock: Option<&Lock>) -> CliResult<()> {
    if let Some(project) = project.filter(|project| project.plugins().contains_key(&entry.name)) {
        return project.check_consent(entry);
    }
    let Some(before) = lock.and_then(|lock| lock.get(&entry.name)) else { return Ok(()) };
    let open = without_consent(&entry.capabilities, &before.capabilities);
    if open.is_empty() { Ok(()) } else { Err(wants_consent(entry, &open)) }
}

/// Adds pins to the lock in `folder`, which was `lock` when the plugins were resolved.
fn add_pins(folder: &Path, lock: Option<&Lock>, pinned: &[LockEntry], printer: &Printer) -> CliResult<()> {
    let before = lock.map(Lock::entries).unwrap_or_default();
    if pinned.iter().all(|entry| before.contains(entry)) {
        return Ok(());
    }
    let _lock = ProjectLock::acquire(folder, printer)?;
    // Another command may have added pins since.
    let current = project_lock_in(folder)?;
    let before = current.as_ref().map(Lock::entries).unwrap_or_default();
    let is_new = |entry: &&LockEntry| !before.contains(entry);
    for entry in pinned.iter().filter(is_new) {
        printer.status(format!("locked {} {} in {LOCK_FILE}", entry.name, entry.version));
    }
    let others = before.iter().filter(|old| pinned.iter().all(|new| new.name != old.name)).cloned();
    let lock = Lock::new(others.chain(pinned.iter().cloned()).collect()).user_error()?;
    lock.write(&folder.join(LOCK_FILE)).user_error()
}
