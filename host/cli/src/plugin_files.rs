//! Plugins by name in a build without registries: refused.

use std::path::{Path, PathBuf};

use gymkhana_orchestration::plugins::pin;
use gymkhana_registry::{Lock, PluginFile, Requirement};

use crate::args::registry::FetchArgs;
use crate::error::{CliError, CliResult};
use crate::plugins::sorted;
use crate::printer::Printer;

/// Plugins by name.
///
/// # Errors
/// If there is a name, or no plugin is given at all.
pub fn named(
    wanted: Option<Vec<Requirement>>,
    _fetch: FetchArgs,
    _began_with: Option<&Path>,
    _printer: &Printer,
) -> CliResult<Vec<PluginFile>> {
    let Some(wanted) = wanted else {
        return Err(CliError::left_out("no plugins are given with --plugins", "projects, which list plugins"));
    };
    match wanted.into_iter().next() {
        None => Ok(vec![]),
        Some(name) => Err(CliError::left_out(format!("the plugin `{name}` is a name in a registry"), "registries")),
    }
}

/// Reads plugins for a command on recorded episodes.
///
/// # Errors
/// If one is a name in a registry, or cannot be read.
pub fn look_up(given: &[PathBuf], printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
    let (read, wanted) = sorted(given, printer)?;
    named(Some(wanted), FetchArgs::default(), None, printer)?;
    pin(read)
}
