//! Plugins of a run in a build without registries: files.

use std::path::{Path, PathBuf};

use gymkhana_orchestration::plugins::{PluginFile, pin, read_file};
use gymkhana_registry::{Lock, Requirement};

use crate::args::registry::FetchArgs;
use crate::error::{CliError, CliResult};
use crate::printer::Printer;

/// Reads a run's plugins and pins them.
///
/// # Errors
/// If none is given, or one is a name in a registry or cannot be read.
pub fn gather(
    given: &[PathBuf],
    _fetch: FetchArgs,
    _began_with: Option<&Path>,
    printer: &Printer,
) -> CliResult<(Vec<PluginFile>, Lock)> {
    if given.is_empty() {
        return Err(CliError::left_out("no plugins are given with --plugins", "projects, which list plugins"));
    }
    look_up(given, printer)
}

/// Reads plugins for a command on recorded episodes.
///
/// # Errors
/// If one is a name in a registry, or cannot be read.
pub fn look_up(given: &[PathBuf], _printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
    pin(given.iter().map(|path| file(path)).collect::<CliResult<_>>()?)
}

/// Origin and bytes of a file. A name such as `calculator@^1` is none.
fn file(given: &Path) -> CliResult<(String, Vec<u8>)> {
    match given.to_str().and_then(|text| text.parse::<Requirement>().ok()) {
        Some(_) => {
            let name = given.display();
            Err(CliError::left_out(format!("the plugin `{name}` is a name in a registry"), "registries"))
        }
        None => read_file(given),
    }
}
