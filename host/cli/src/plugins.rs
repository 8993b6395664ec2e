//! Plugins of a command: those of its arguments, and those that its run file names beside them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gymkhana_config::EpisodeRules;
use gymkhana_orchestration::plugins::{pin, read_file, read_file_of};
use gymkhana_registry::{Lock, PluginFile, PluginSource, Requirement};

use crate::args::registry::FetchArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::registry;

/// How a command takes its plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenAs {
    /// As `--plugins`.
    Option,
    /// As arguments without an option.
    Arguments,
}

/// The plugins that a command wants.
#[derive(Debug, Clone, Copy)]
pub struct WantedPlugins<'a> {
    /// Arguments: files, or names in registries.
    pub given: &'a [PathBuf],
    /// How the command takes them.
    pub given_as: GivenAs,
    /// Rules that may name plugins, and the folder of their file.
    pub file: Option<(&'a EpisodeRules, &'a Path)>,
    /// Options for plugins from registries.
    pub fetch: FetchArgs,
    /// Folder of a resumed run, whose lock pins the versions.
    pub began_with: Option<&'a Path>,
}

impl<'a> WantedPlugins<'a> {
    /// Those of `--plugins`, and those that the rules in a folder name.
    pub fn of_run(given: &'a [PathBuf], rules: &'a EpisodeRules, folder: &'a Path, fetch: FetchArgs) -> Self {
        Self { given, given_as: GivenAs::Option, file: Some((rules, folder)), fetch, began_with: None }
    }

    /// Reads and downloads the plugins and pins them; those of the project if none is named.
    ///
    /// # Errors
    /// If the command, the file and the project name none, or a plugin cannot be read or resolved.
    pub fn gather(&self, printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
        let (mut read, mut wanted) = sorted(self.given, printer)?;
        self.add_named(&mut read, &mut wanted)?;
        let names_none = read.is_empty() && wanted.is_empty();
        let wanted = (!names_none).then_some(wanted);
        read.extend(registry::named(wanted, self.fetch, self.began_with, printer)?);
        if read.is_empty() {
            let how = match self.given_as {
                GivenAs::Option => "name them in [plugins] of the run file, give --plugins",
                GivenAs::Arguments => "name their files, such as `word-problems.wasm`, after the command",
            };
            return Err(CliError::user("no plugins are given")
                .with_hint(format!("{how}, or add plugins to a project with `host add`")));
        }
        pin(read)
    }

    /// Adds what the rules name, except plugins of the same names as those of the command line.
    fn add_named(&self, read: &mut Vec<PluginFile>, wanted: &mut Vec<Requirement>) -> CliResult<()> {
        let Some((rules, folder)) = self.file else { return Ok(()) };
        let files = read.iter().map(|file| file.name().to_owned());
        let given: BTreeSet<String> = files.chain(wanted.iter().map(|name| name.name.short().to_owned())).collect();
        for (name, source) in rules.sources().user_error()? {
            if given.contains(name) {
                continue;
            }
            match source {
                PluginSource::Name(requirement) => wanted.push(requirement),
                PluginSource::File(path) => read.push(read_file_of(name, &folder.join(path))?),
            }
        }
        Ok(())
    }
}

/// Reads the files among arguments; returns them, and the names.
pub fn sorted(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<PluginFile>, Vec<Requirement>)> {
    let (mut read, mut wanted) = (Vec::new(), Vec::new());
    for given in given {
        match given.to_str().map(PluginSource::of) {
            Some(PluginSource::Name(name)) => {
                if let Some(path) = file_of_name(given) {
                    let (name, path) = (given.display(), path.display());
                    printer.status(format!("treating `{name}` as a plugin name; use `./{path}` for a local file"));
                }
                wanted.push(name);
            }
            Some(PluginSource::File(_)) | None => read.push(read_file(given)?),
        }
    }
    Ok((read, wanted))
}

/// A file beside the working directory's others that a plugin name may mean: one of this name, or its component.
pub fn file_of_name(given: &Path) -> Option<PathBuf> {
    let mut component = given.as_os_str().to_owned();
    component.push(".wasm");
    [given.to_owned(), PathBuf::from(component)].into_iter().find(|path| path.exists())
}
