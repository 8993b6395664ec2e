//! Plugins of commands by name, from the registries of the user and the project.

use std::path::{Path, PathBuf};

use gymkhana_orchestration::plugins::pin;
use gymkhana_registry::{Lock, PluginFile, PluginSource, Requirement, RequirementName};
use gymkhana_registry_client::{Pins, Project, ProjectError, Unpinned, lock_in};

use super::RegistrySession;
use crate::args::registry::FetchArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::plugins::{file_of_name, sorted};
use crate::printer::Printer;

/// The name that a plugin argument is, unless it is a file.
pub fn name_of(given: &Path) -> Option<Requirement> {
    match PluginSource::of(given.to_str()?) {
        PluginSource::Name(name) => Some(name),
        PluginSource::File(_) => None,
    }
}

/// Resolves and downloads plugins, and pins them in the project. Without `wanted`, those are taken that the project
/// requires, if there is one. A resumed run uses the lock in `began_with` and changes no other.
///
/// # Errors
/// If a plugin cannot be resolved or downloaded, or requests capabilities without consent.
pub fn named(
    wanted: Option<Vec<Requirement>>,
    fetch: FetchArgs,
    began_with: Option<&Path>,
    printer: &Printer,
) -> CliResult<Vec<PluginFile>> {
    let of_project = || Ok(Project::open()?.map(|project| project.wanted()).unwrap_or_default());
    let wanted = wanted.map_or_else(of_project, Ok::<_, ProjectError>).user_error()?;
    if wanted.is_empty() {
        return Ok(vec![]);
    }
    let session = RegistrySession::new(fetch.offline)?;
    let resumed = began_with.map(lock_in).transpose().user_error()?.flatten();
    let pins = match resumed {
        Some(lock) => Pins::OfRun(lock),
        None if fetch.locked => Pins::Required,
        None => Pins::Added,
    };
    let notify = |text: &str| printer.status(text);
    let fetched = session.wait(printer, session.resolver.fetch(&wanted, &pins, &notify));
    fetched.map_err(|error| or_file(error, &wanted))
}

/// Reads and downloads plugins for a command on recorded episodes: takes the newest matching versions and ignores
/// locks.
pub fn look_up(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
    let (mut read, wanted) = sorted(given, printer)?;
    if !wanted.is_empty() {
        let session = RegistrySession::new(false)?;
        let fetched = session.wait(printer, async {
            let pinned = session.client().resolve(&wanted, None, Unpinned::Resolve).await?;
            session.client().components(&pinned).await
        });
        read.extend(fetched.map_err(|error| or_file(error, &wanted))?);
    }
    pin(read)
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
